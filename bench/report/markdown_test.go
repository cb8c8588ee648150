package report_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/bench/report"
)

var rewrite = flag.Bool("rewrite", false, "write the tables in README.md anew")

var tables = regexp.MustCompile(`(?s)(<!-- tables of (\S+) -->\n)(.*?)(<!-- end -->)`)

// Every number in the README comes from a file of results that is there.
func TestReadme_TablesAreThoseOfTheResults(t *testing.T) {
	readme := filepath.Join("..", "README.md")
	before, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	after := tables.ReplaceAllStringFunc(string(before), func(part string) string {
		found++
		m := tables.FindStringSubmatch(part)
		results, err := report.Read(filepath.Join("..", m[2]))
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		results.Markdown(&out)
		return m[1] + "\n" + strings.TrimSpace(out.String()) + "\n\n" + m[4]
	})
	if *rewrite {
		if err := os.WriteFile(readme, []byte(after), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if after != string(before) {
		t.Errorf("README.md has other tables than its results: go test ./report -rewrite")
	}
	if found == 0 {
		t.Error("README.md has no tables")
	}
}
