package report_test

import (
	"bytes"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/bench/report"
)

var rewrite = flag.Bool("rewrite", false, "write the tables into the documents")

// marked matches the text between a mark that names a file of results and the end mark.
func marked(what string) *regexp.Regexp {
	return regexp.MustCompile(`(?s)(<!-- ` + what + ` of (\S+) -->\n)(.*?)(<!-- end -->)`)
}

// The tables in bench/README.md are made from committed results.
func TestReadme_TablesAreThoseOfTheResults(t *testing.T) {
	compare(t, filepath.Join("..", "README.md"), marked("tables"), (*report.Results).Markdown)
}

// The figures in the project's README are made from committed results.
func TestReadme_ProjectsFiguresAreThoseOfTheResults(t *testing.T) {
	compare(t, filepath.Join("..", "..", "README.md"), marked("figures"), (*report.Results).Glance)
}

// The tables in doc/sizing.md are made from committed results.
func TestReadme_SizingIsThatOfTheResults(t *testing.T) {
	compare(t, filepath.Join("..", "..", "doc", "sizing.md"), marked("sizing"), (*report.Results).Sizing)
}

// compare makes each marked part of a document again, from the results that its mark names. If the text differs, compare fails; with -rewrite it
// writes the new text into the document.
func compare(t *testing.T, document string, parts *regexp.Regexp, write func(r *report.Results, out io.Writer)) {
	t.Helper()
	before, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	after := parts.ReplaceAllStringFunc(string(before), func(part string) string {
		found++
		m := parts.FindStringSubmatch(part)
		mustBeCommitted(t, filepath.Join(filepath.Dir(document), m[2]))
		results, err := report.Read(filepath.Join(filepath.Dir(document), m[2]))
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		write(results, &out)
		return m[1] + "\n" + strings.TrimSpace(out.String()) + "\n\n" + m[4]
	})
	if *rewrite {
		if err := os.WriteFile(document, []byte(after), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if after != string(before) {
		t.Errorf("the tables of %s are not those of the results: go test ./report -rewrite", document)
	}
	if _, err := os.Stat(filepath.Join("..", "results", "reference.json")); err == nil && found == 0 {
		t.Errorf("%s has no tables, although there are results", document)
	}
}

// mustBeCommitted fails the test if the file of results is not committed. Outside a git repository, it checks nothing.
// TestCommitted_ResultsMayBeQuoted checks what is in the committed files.
func mustBeCommitted(t *testing.T, file string) {
	t.Helper()
	if exec.Command("git", "rev-parse", "--git-dir").Run() != nil {
		return
	}
	if err := exec.Command("git", "ls-files", "--error-unmatch", "--", file).Run(); err != nil {
		t.Errorf("%s is quoted, but it is not committed", file)
	}
}
