package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/embedded"
)

// ExampleRuntime is the code of the README; TestReadme_CodeIsAnExample keeps the two equal.
func ExampleRuntime() {
	ctx := context.Background()
	server, err := embedded.Start() // in production: a Redis server
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := server.Client() // redis.NewClient(&redis.Options{Addr: "localhost:6379"})

	rt, err := holdfast.New(client, holdfast.Options{}) // one per process
	if err != nil {
		log.Fatal(err)
	}
	defer func() { // holders have 10 s to finish
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		if err := errors.Join(rt.Shutdown(ctx), client.Close()); err != nil {
			log.Print(err)
		}
	}()

	// Do waits for the lock, holds it while the function runs, and releases it.
	err = rt.Lock("orders").Do(ctx, func(ctx context.Context) error {
		fmt.Println("exclusive") // ctx ends if the lock is lost
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}

	// Acquire returns a Lease, which is renewed until it is released.
	lease, err := rt.Lock("orders").Acquire(ctx, holdfast.WithWait(2*time.Second))
	if errors.Is(err, holdfast.ErrNotAcquired) {
		fmt.Println("taken")
		return
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("held:", lease.Valid())
	if err := lease.Release(ctx); err != nil {
		log.Print(err)
	}

	// Output:
	// exclusive
	// held: true
}

func TestReadme_CodeIsAnExample(t *testing.T) {
	t.Parallel()
	block := regexp.MustCompile("(?s)<!-- example:(\\w+) -->\n```go\n(.*?)```").FindStringSubmatch(read(t, "README.md"))
	require.NotNil(t, block, "the README has an example block")

	assert.Equal(t, functionBody(t, "readme_test.go", block[1]), block[2])
}

// Readers of a README have little time.
func TestReadme_IsShort(t *testing.T) {
	t.Parallel()
	text := regexp.MustCompile("(?s)```.*?```").ReplaceAllString(read(t, "README.md"), "")
	prose := regexp.MustCompile(`(?m)^\|.*$`).ReplaceAllString(text, "") // without code and tables
	assert.LessOrEqual(t, len(strings.Fields(prose)), 900, "words")
	words := strings.Fields(regexp.MustCompile(`\||---`).ReplaceAllString(read(t, "README.md"), " ")) // code and tables are read, too
	assert.LessOrEqual(t, len(words), 1100, "words")
}

// The documents say which test shows what. Each of those tests exists.
func TestReadme_NamesTestsThatExist(t *testing.T) {
	t.Parallel()
	var tests strings.Builder
	require.NoError(t, filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_test.go") {
			tests.WriteString(read(t, path))
		}
		return err
	}))
	for _, document := range []string{"doc/promises.md", "doc/election.md", "SAFETY.md", "CONFORMANCE.md"} {
		named := regexp.MustCompile(`\b(Test|Fuzz)[A-Z]\w+`).FindAllString(read(t, document), -1)
		require.NotEmpty(t, named, document)
		for _, name := range named {
			assert.True(t, strings.Contains(tests.String(), "\nfunc "+name+"("), "%s names %s, which is no test", document, name)
		}
	}
}

// documents are all in a folder and below it.
func documents(t *testing.T, folder string) (found []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			found = append(found, path)
		}
		return err
	}))
	require.NotEmpty(t, found, folder)
	return found
}

// The targets of the documents' links exist, and so do the headings in them.
func TestReadme_LinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	for _, document := range documents(t, ".") {
		for _, link := range regexp.MustCompile(`\]\(([^)#]*)(?:#([^)]+))?\)`).FindAllStringSubmatch(read(t, document), -1) {
			if strings.Contains(link[1], "://") {
				continue
			}
			target := document
			if link[1] != "" {
				target = filepath.Join(filepath.Dir(document), link[1])
			}
			_, err := os.Stat(target)
			assert.NoError(t, err, document)
			if link[2] != "" {
				assert.Contains(t, anchors(read(t, target)), link[2], "%s links to %s", document, link[0])
			}
		}
	}
}

// anchors are those of the headings of a document, as GitHub makes them.
func anchors(text string) (all []string) {
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		plain := regexp.MustCompile(`[^\p{L}\p{N}_ -]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		all = append(all, strings.ReplaceAll(plain, " ", "-"))
	}
	return all
}

// SAFETY.md has each of the 60 hazards in one row, with its tests, or the reason why it does not apply.
func TestSafety_HasEveryHazard(t *testing.T) {
	t.Parallel()
	text, reasons, found := strings.Cut(read(t, "SAFETY.md"), "\n## Not applicable\n")
	require.True(t, found)
	for n := 1; n <= 60; n++ {
		row := regexp.MustCompile(fmt.Sprintf(`(?m)^\| H%d \| [^|]+ \| [^|]+ \|(.*)$`, n))
		shown, excused := row.FindAllStringSubmatch(text, -1), row.FindAllStringSubmatch(reasons, -1)
		if assert.Len(t, append(shown, excused...), 1, "rows of H%d", n) && len(shown) == 1 {
			assert.Regexp(t, "`(Test|Fuzz)[A-Z]", shown[0][1], "tests of H%d", n)
		}
	}
}

// The rule must grant exactly the commands that the scripts call, with those that Options.Process needs in addition.
func TestSecurity_RuleGrantsWhatScriptsCall(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("scripts/*.lua")
	require.NoError(t, err)
	included, err := filepath.Glob("scripts/lib/*.lua")
	require.NoError(t, err)
	called := map[string]bool{}
	for _, file := range append(files, included...) {
		for _, call := range regexp.MustCompile(`redis\.p?call\('?(\w+)`).FindAllStringSubmatch(read(t, file), -1) {
			called[call[1]] = true // publish is called by the name that the script gets: PUBLISH or SPUBLISH
		}
	}
	rule := regexp.MustCompile("(?s)```\nACL SETUSER.*?```").FindString(read(t, "SECURITY.md"))
	rule += regexp.MustCompile("`Options.Process` needs[^`]*`[^`]*`").FindString(read(t, "SECURITY.md"))
	granted := map[string]bool{}
	for _, command := range regexp.MustCompile(`\+(\w+)`).FindAllStringSubmatch(rule, -1) {
		granted[command[1]] = true
	}
	for _, sent := range []string{"hello", "ping", "evalsha", "script", "subscribe", "unsubscribe"} {
		assert.True(t, granted[sent], "the runtime sends %s", sent)
		delete(granted, sent)
	}

	assert.Equal(t, called, granted)
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

// functionBody is the text between the braces of a function, moved to the left margin.
func functionBody(t *testing.T, file, name string) string {
	t.Helper()
	text := read(t, file)
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, file, text, 0)
	require.NoError(t, err)
	for _, declaration := range parsed.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok || function.Name.Name != name {
			continue
		}
		from, to := files.Position(function.Body.Lbrace).Offset+1, files.Position(function.Body.Rbrace).Offset
		lines := strings.TrimPrefix(text[from:to], "\n")
		return strings.ReplaceAll(strings.TrimPrefix(lines, "\t"), "\n\t", "\n")
	}
	require.Fail(t, "no function", "%s in %s", name, file)
	return ""
}
