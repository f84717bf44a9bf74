import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Filters the same captures as a CDX server without tags does.
 *
 * <pre>java Peer lines collections method rounds</pre>
 *
 * The file {@code lines} contains CDX lines of 11 fields, and the file {@code collections} contains lines of
 * the form {@code id organisation private}. The methods {@code regex-all} and {@code regex-public} use one
 * regular expression for all collections or for the public collections; {@code plugin-all} and {@code
 * plugin-org:N} use the plugin of the design page. Prints the nanoseconds to build the filter, the
 * nanoseconds per capture in each round, and the captures that pass (one hexadecimal digit for four
 * captures).
 *
 * The file names are extracted from the lines before the measurement, because a server reads them from its
 * database.
 */
public class Peer {
    private static final Pattern WARC = Pattern.compile("(?:^|/)ARCHIVEIT-(\\d+)-");

    private final List<Integer> ids = new ArrayList<>();
    private final BitSet privateCollections = new BitSet();
    private final Map<Integer, Integer> organisations = new HashMap<>();

    public static void main(String[] args) throws Exception {
        String[] files = Files.readAllLines(Path.of(args[0]), StandardCharsets.ISO_8859_1).stream()
                .map(line -> line.substring(line.lastIndexOf(' ') + 1))
                .toArray(String[]::new);
        Peer peer = new Peer(Path.of(args[1]));
        long begun = System.nanoTime();
        Predicate<String> filter = peer.filter(args[2]);
        System.out.println(System.nanoTime() - begun);

        // Warm up the just-in-time compiler: at least three rounds and three seconds.
        boolean[] kept = new boolean[files.length];
        begun = System.nanoTime();
        for (int round = 0; round < 3 || System.nanoTime() - begun < 3_000_000_000L; round++) {
            run(filter, files, kept);
        }
        double[] each = new double[Integer.parseInt(args[3])];
        for (int round = 0; round < each.length; round++) {
            long from = System.nanoTime();
            run(filter, files, kept);
            each[round] = (System.nanoTime() - from) / (double) files.length;
        }
        for (double nanoseconds : each) {
            System.out.print(nanoseconds + " ");
        }
        System.out.println();
        System.out.println(hexadecimal(kept));
    }

    private Peer(Path collections) throws Exception {
        for (String line : Files.readAllLines(collections)) {
            String[] words = line.split(" ");
            int id = Integer.parseInt(words[0]);
            ids.add(id);
            organisations.put(id, Integer.parseInt(words[1]));
            privateCollections.set(id, words[2].equals("1"));
        }
    }

    private Predicate<String> filter(String method) {
        if (method.startsWith("regex-")) {
            boolean all = method.equals("regex-all");
            StringBuilder alternatives = new StringBuilder();
            for (int id : ids) {
                if (all || !privateCollections.get(id)) {
                    alternatives.append(alternatives.length() == 0 ? "" : "|").append(id);
                }
            }
            Pattern pattern = Pattern.compile("ARCHIVEIT-(" + alternatives + ")-");
            return file -> pattern.matcher(file).find();
        }
        if (method.startsWith("plugin-org:")) {
            Integer organisation = Integer.valueOf(method.substring("plugin-org:".length()));
            return file -> organisation.equals(organisations.get(collection(file)));
        }
        // For a name without a collection, the plugin of the design page throws. This filter drops the
        // capture.
        return file -> {
            int id = collection(file);
            return id >= 0 && !privateCollections.get(id);
        };
    }

    private static int collection(String file) {
        Matcher matcher = WARC.matcher(file);
        return matcher.find() ? Integer.parseInt(matcher.group(1)) : -1;
    }

    private static void run(Predicate<String> filter, String[] files, boolean[] kept) {
        for (int i = 0; i < files.length; i++) {
            kept[i] = filter.test(files[i]);
        }
    }

    private static String hexadecimal(boolean[] kept) {
        StringBuilder out = new StringBuilder();
        for (int i = 0; i < kept.length; i += 4) {
            int digit = 0;
            for (int j = i; j < i + 4; j++) {
                digit = 2 * digit + (j < kept.length && kept[j] ? 1 : 0);
            }
            out.append(Character.forDigit(digit, 16));
        }
        return out.toString();
    }
}
