//! SQL for a table of collections like Archive-It's, and for the trigger that announces its changes.

/// A table of collections, each of which belongs to an organization and is public or private.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// Name of the table, optionally with its schema: `archive.collection`.
    pub table: String,
    /// Column with the id of the collection.
    pub id: String,
    /// Column with the id of its organization.
    pub organization: String,
    /// Column that controls access.
    pub flag: Flag,
    /// Tag for public collections, in addition to `private` for the others.
    pub public_tag: Option<String>,
}

/// A boolean column that controls access to a collection. NULL means private.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flag {
    /// True means private.
    Private(String),
    /// True means public.
    Public(String),
}

impl Default for Schema {
    fn default() -> Schema {
        Schema {
            table: "collection".to_owned(),
            id: "id".to_owned(),
            organization: "organization_id".to_owned(),
            flag: Flag::Private("private".to_owned()),
            public_tag: None,
        }
    }
}

impl Schema {
    /// Returns the query for `coll:<id>` with the tag `org:<organization>`, and `private` unless it is
    /// public.
    ///
    /// ```
    /// use crawlspace_cli::mirror::Schema;
    /// let query = Schema::default().query();
    /// assert!(query.contains(r#"CASE WHEN "private" IS NOT FALSE THEN 'private' END"#));
    /// ```
    pub fn query(&self) -> String {
        let (private, public) = match &self.flag {
            Flag::Private(column) => {
                let column = identifier(column);
                (
                    format!("{column} IS NOT FALSE"),
                    format!("{column} IS FALSE"),
                )
            }
            Flag::Public(column) => {
                let column = identifier(column);
                (format!("{column} IS NOT TRUE"), format!("{column} IS TRUE"))
            }
        };
        let mut tags = vec![
            format!("'org:' || {}", identifier(&self.organization)),
            format!("CASE WHEN {private} THEN 'private' END"),
        ];
        if let Some(tag) = &self.public_tag {
            tags.push(format!("CASE WHEN {public} THEN {} END", literal(tag)));
        }
        format!(
            "SELECT 'coll:' || {} AS id,\n       ARRAY[{}] AS tags\nFROM {}",
            identifier(&self.id),
            tags.join(",\n             "),
            relation(&self.table)
        )
    }

    /// Returns the SQL of the function and the triggers that announce each change of the table on a channel.
    pub fn trigger(&self, channel: &str) -> String {
        let (table, id) = (relation(&self.table), identifier(&self.id));
        let (channel, function) = (literal(channel), identifier("crawlspace_tags_changed"));
        format!(
            "CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $crawlspace$
BEGIN
    -- An empty payload stands for everything.
    IF TG_OP = 'TRUNCATE' THEN
        PERFORM pg_notify({channel}, '');
        RETURN NULL;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        PERFORM pg_notify({channel}, 'coll:' || OLD.{id});
    END IF;
    IF TG_OP <> 'DELETE' THEN
        PERFORM pg_notify({channel}, 'coll:' || NEW.{id});
    END IF;
    RETURN NULL;
END
$crawlspace$;

DROP TRIGGER IF EXISTS crawlspace_tags_changed ON {table};
CREATE TRIGGER crawlspace_tags_changed
    AFTER INSERT OR UPDATE OR DELETE ON {table}
    FOR EACH ROW EXECUTE FUNCTION {function}();

DROP TRIGGER IF EXISTS crawlspace_tags_truncated ON {table};
CREATE TRIGGER crawlspace_tags_truncated
    AFTER TRUNCATE ON {table}
    FOR EACH STATEMENT EXECUTE FUNCTION {function}();

-- Each change reads the table once. From some hundred thousand rows on, an index makes that quick:
-- CREATE INDEX crawlspace_tags_id ON {table} (('coll:' || {id}));
"
        )
    }
}

/// Quotes an SQL identifier.
pub(super) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Quotes an SQL string literal.
pub(super) fn literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    if quoted.contains('\\') {
        // `E'…'` is valid with standard_conforming_strings on or off.
        return format!("E'{}'", quoted.replace('\\', "\\\\"));
    }
    format!("'{quoted}'")
}

/// Quotes the name of a table with an optional schema. A part in quotes may contain dots.
fn relation(name: &str) -> String {
    let mut parts = vec![String::new()];
    let mut quoted = false;
    let mut letters = name.chars().peekable();
    while let Some(letter) = letters.next() {
        let part = parts.len() - 1;
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                parts[part].push('"');
            }
            '"' => quoted = !quoted,
            '.' if !quoted => parts.push(String::new()),
            letter => parts[part].push(letter),
        }
    }
    let parts: Vec<String> = parts.iter().map(|part| identifier(part)).collect();
    parts.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_texts_are_escaped() {
        assert_eq!(identifier("Priv ate"), "\"Priv ate\"");
        assert_eq!(identifier("a\"; DROP"), "\"a\"\"; DROP\"");
        assert_eq!(literal("it's"), "'it''s'");
        assert_eq!(literal(r"a\'b"), r"E'a\\''b'");
    }

    #[test]
    fn table_name_may_have_a_schema_and_quotes() {
        assert_eq!(relation("collection"), r#""collection""#);
        assert_eq!(relation("archive.Coll"), r#""archive"."Coll""#);
        assert_eq!(relation(r#""a.b".c"#), r#""a.b"."c""#);
        assert_eq!(relation(r#""a""b""#), r#""a""b""#);
    }

    #[test]
    fn null_flag_means_private() {
        let mut schema = Schema::default();
        assert_eq!(
            schema.query(),
            "SELECT 'coll:' || \"id\" AS id,\n       ARRAY['org:' || \"organization_id\",\n             \
             CASE WHEN \"private\" IS NOT FALSE THEN 'private' END] AS tags\nFROM \"collection\""
        );
        schema.flag = Flag::Public("visible".to_owned());
        schema.public_tag = Some("open".to_owned());
        let query = schema.query();
        assert!(query.contains("CASE WHEN \"visible\" IS NOT TRUE THEN 'private' END"));
        assert!(query.contains("CASE WHEN \"visible\" IS TRUE THEN 'open' END"));
    }

    #[test]
    fn trigger_notifies_of_the_old_and_the_new_id() {
        let trigger = Schema::default().trigger("it's");
        assert!(trigger.contains("pg_notify('it''s', 'coll:' || OLD.\"id\")"));
        assert!(trigger.contains("pg_notify('it''s', 'coll:' || NEW.\"id\")"));
        assert!(trigger.contains("pg_notify('it''s', '')"));
    }
}
