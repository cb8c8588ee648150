package with

import (
	"database/sql"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// The SQL statement of doc/leases.md accepts every write with the newest token, and refuses writes with older tokens.
func TestGuide_StatementRefusesOlderTokens(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile(filepath.Join("..", "..", "doc", "leases.md"))
	if err != nil {
		t.Fatal(err)
	}
	statement := regexp.MustCompile("(?s)```sql\n(.*?)```").FindSubmatch(guide)
	if statement == nil {
		t.Fatal("the guide has no statement")
	}
	update := regexp.MustCompile(`\$(\d)`).ReplaceAllString(string(statement[1]), "?$1") // SQLite's form of parameters
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "guide.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), `CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER, token INTEGER);
		INSERT INTO account VALUES (1, 0, 0)`); err != nil {
		t.Fatal(err)
	}
	for i, write := range []struct{ token, changed int64 }{{7, 1}, {7, 1}, {6, 0}, {9, 1}, {8, 0}} {
		result, err := db.ExecContext(t.Context(), update, 100+i, write.token, 1)
		if err != nil {
			t.Fatal(err)
		}
		if changed, err := result.RowsAffected(); err != nil || changed != write.changed {
			t.Errorf("write %d changed %d rows, want %d: %v", i, changed, write.changed, err)
		}
	}
}
