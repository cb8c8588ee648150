package report_test

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/bench/report"
)

var rewrite = flag.Bool("rewrite", false, "write the tables of both READMEs anew")

// marked is what stands between a mark that names a file of results, and the end.
func marked(what string) *regexp.Regexp {
	return regexp.MustCompile(`(?s)(<!-- ` + what + ` of (\S+) -->\n)(.*?)(<!-- end -->)`)
}

// Every number in bench/README.md comes from a file of results that is there.
func TestReadme_TablesAreThoseOfTheResults(t *testing.T) {
	compare(t, filepath.Join("..", "README.md"), marked("tables"), (*report.Results).Markdown)
}

// So does every number in the project's own.
func TestReadme_ProjectsFiguresAreThoseOfTheResults(t *testing.T) {
	compare(t, filepath.Join("..", "..", "README.md"), marked("figures"), (*report.Results).Glance)
}

// compare writes each marked part of a document from the results that it names, and wants what stands there already.
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
		t.Errorf("%s has other tables than its results: go test ./report -rewrite", document)
	}
	if found == 0 {
		t.Errorf("%s has no tables", document)
	}
}
