import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.RandomAccessFile;
import java.nio.channels.FileLock;
import java.util.HashMap;
import java.util.Map;

/** Locks and unlocks files: each input line contains a command (lock, try, unlock) and the path of a file. */
public class Locks {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        Map<String, RandomAccessFile> files = new HashMap<>();
        Map<String, FileLock> locks = new HashMap<>();
        System.out.println("ready");
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.split(" ", 2);
            String path = words[1];
            if (!files.containsKey(path)) {
                files.put(path, new RandomAccessFile(path, "rw"));
            }
            FileLock lock;
            switch (words[0]) {
                case "lock":
                    locks.put(path, files.get(path).getChannel().lock());
                    System.out.println("locked");
                    break;
                case "try":
                    lock = files.get(path).getChannel().tryLock();
                    locks.put(path, lock);
                    System.out.println(lock == null ? "null" : "locked");
                    break;
                default:
                    locks.remove(path).release();
                    System.out.println("unlocked");
            }
        }
    }
}
