package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/doc"
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
	server, err := embedded.Start() // a Redis inside this process, to try it
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
	}, holdfast.WithWait(2*time.Second))
	switch {
	case errors.Is(err, holdfast.ErrNotAcquired):
		log.Print(err) // others have it (*BusyError), or Redis did not answer
	case errors.Is(err, holdfast.ErrLeaseLost):
		fmt.Println("lost while the function ran")
	case err != nil:
		log.Print(err) // from Redis, or from the function
	}

	// Output:
	// exclusive
}

func TestReadme_CodeIsAnExample(t *testing.T) {
	t.Parallel()
	block := regexp.MustCompile("(?s)<!-- example:(\\w+) -->\n```go\n(.*?)```").FindStringSubmatch(read(t, "README.md"))
	require.NotNil(t, block, "the README has an example block")

	assert.Equal(t, functionBody(t, "readme_test.go", block[1]), block[2])
}

// The README has at most 900 words, code and tables included.
func TestReadme_IsShort(t *testing.T) {
	t.Parallel()
	words := strings.Fields(regexp.MustCompile(`\||---`).ReplaceAllString(read(t, "README.md"), " "))
	assert.LessOrEqual(t, len(words), 900, "words of the README")
}

// Each badge of the README links to a file that confirms what the badge says.
func TestReadme_BadgesAreTrue(t *testing.T) {
	t.Parallel()
	badges := regexp.MustCompile(`\[!\[([^]]+)\]\(https://img\.shields\.io/badge/([^)]+)\)\]\(([^)]+)\)`).FindAllStringSubmatch(read(t, "README.md"), -1)
	truth := map[string][]string{
		"Go 1.26":              {"Go-1.26", "\ngo 1.26"},
		"Redis 6.2+, Valkey 8": {"Redis_6.2%2B-Valkey_8", "Redis 6.2, Valkey 8"},
		"License MIT":          {"license-MIT", "MIT License"},
	}
	require.Len(t, badges, len(truth))
	for _, badge := range badges {
		claim := truth[badge[1]]
		require.NotNil(t, claim, badge[1])
		assert.True(t, strings.HasPrefix(badge[2], claim[0]), badge[2])
		assert.Contains(t, read(t, badge[3]), claim[1], badge[1])
	}
}

// The documents name the tests that back their claims. Each of those tests exists.
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
			assert.True(t, strings.Contains(tests.String(), "\nfunc "+name+"("), "%s names %s, which is not a test", document, name)
		}
	}
}

// documents returns all documents in a folder and below it.
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

// Every link in a document to a file or folder of the repository leads to one that exists. If the link has an anchor, the target has a heading with
// that anchor. Links to the web are not checked.
func TestReadme_LinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	for _, document := range documents(t, ".") {
		text := regexp.MustCompile("(?s)```.*?```").ReplaceAllString(read(t, document), "") // code may look like links
		for _, link := range regexp.MustCompile(`\]\(([^)#]*)(?:#([^)]+))?\)`).FindAllStringSubmatch(text, -1) {
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

// anchors returns the anchors of a document's headings, as GitHub makes them.
func anchors(text string) (all []string) {
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		plain := regexp.MustCompile(`[^\p{L}\p{N}_ -]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		all = append(all, strings.ReplaceAll(plain, " ", "-"))
	}
	return all
}

// For each hazard, SAFETY.md has either a short row and a second row with its tests, or a row with the reason why the hazard does not apply.
func TestSafety_HasEveryHazard(t *testing.T) {
	t.Parallel()
	const hazards, twoLines = 74, 310
	text, reasons, found := strings.Cut(read(t, "SAFETY.md"), "\n## Not applicable\n")
	require.True(t, found)
	answers, tests, found := strings.Cut(text, "\n## The tests of each hazard\n")
	require.True(t, found)
	for n := 1; n <= hazards; n++ {
		row := regexp.MustCompile(fmt.Sprintf(`(?m)^\| H%d \| .*$`, n))
		shown, excused := row.FindAllString(answers, -1), row.FindAllString(reasons, -1)
		if assert.Len(t, append(shown, excused...), 1, "rows of H%d", n) && len(shown) == 1 {
			assert.LessOrEqual(t, len(shown[0]), twoLines, "H%d: write details below the table", n)
			assert.Regexp(t, "`(Test|Fuzz)[A-Z]", row.FindString(tests), "tests of H%d", n)
		}
	}
	assert.NotContains(t, text, fmt.Sprintf("| H%d |", hazards+1))
}

// A table row takes at most two lines on a page, because nobody would read a longer one.
func TestDoc_RowsAreShort(t *testing.T) {
	t.Parallel()
	const twoLines = 310
	for _, document := range append(documents(t, "doc"), "README.md", "SAFETY.md", "CONFORMANCE.md", "ARCHITECTURE.md") {
		for line := range strings.Lines(read(t, document)) {
			if strings.HasPrefix(line, "|") && !strings.Contains(document, "decisions") {
				assert.LessOrEqual(t, len(line), twoLines, "%s: %s", document, line)
			}
		}
	}
}

// The ACL rule in SECURITY.md and the commands listed there for Options.Process must together grant exactly the commands that the scripts call
// and those that the runtime sends itself.
func TestSecurity_RuleGrantsWhatScriptsCall(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("scripts/*.lua")
	require.NoError(t, err)
	included, err := filepath.Glob("scripts/lib/*.lua")
	require.NoError(t, err)
	called := map[string]bool{}
	for _, file := range append(files, included...) {
		for _, call := range regexp.MustCompile(`redis\.p?call\('?(\w+)`).FindAllStringSubmatch(read(t, file), -1) {
			called[call[1]] = true // "publish" is a variable of the scripts; its value is PUBLISH or SPUBLISH
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

// A package page does not show the fields of an alias. So the alias's comment names them, and links to the type.
func TestDoc_AliasesNameTheirFields(t *testing.T) {
	t.Parallel()
	types := map[string]*ast.TypeSpec{}
	for name, folder := range map[string]string{"protocol": "protocol", "trace": "actors/trace"} {
		for _, declared := range typesOf(t, folder) {
			types[name+"."+declared.Name.Name] = declared
		}
	}
	aliases := 0
	for _, declared := range typesOf(t, ".") {
		of, ok := declared.Type.(*ast.SelectorExpr)
		if !declared.Assign.IsValid() || !ok {
			continue
		}
		aliases++
		name := of.X.(*ast.Ident).Name + "." + of.Sel.Name
		require.NotNil(t, types[name], name)
		text := declared.Doc.Text()
		assert.Contains(t, text, "["+name+"]", name)
		if structure, ok := types[name].Type.(*ast.StructType); ok {
			for _, field := range structure.Fields.List {
				for _, ident := range field.Names {
					assert.True(t, !ident.IsExported() || regexp.MustCompile(`\b`+ident.Name+`\b`).MatchString(text), "%s.%s", name, ident.Name)
				}
			}
		}
	}
	assert.Positive(t, aliases)
}

// typesOf returns the types that a package declares, with their comments.
func typesOf(t *testing.T, folder string) (types []*ast.TypeSpec) {
	t.Helper()
	for _, file := range packageOf(t, folder) {
		for _, declaration := range file.Decls {
			group, ok := declaration.(*ast.GenDecl)
			if !ok || group.Tok != token.TYPE {
				continue
			}
			for _, spec := range group.Specs {
				declared := spec.(*ast.TypeSpec)
				if declared.Doc == nil {
					declared.Doc = group.Doc
				}
				types = append(types, declared)
			}
		}
	}
	require.NotEmpty(t, types, folder)
	return types
}

// packageOf returns the files of a package, without its tests.
func packageOf(t *testing.T, folder string) (files []*ast.File) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	require.NoError(t, err)
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		require.NoError(t, err)
		files = append(files, file)
	}
	require.NotEmpty(t, files, folder)
	return files
}

// Every exported symbol has a comment, which its package page shows.
func TestDoc_ExportedSymbolsHaveComments(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{
		".", "protocol", "inspect", "web", "holdfasttest", "embedded", "timerwheel", "otelholdfast",
		"contrib/gocron", "contrib/goose", "contrib/migrate", "contrib/certmagic",
	} {
		explained := false
		for _, file := range packageOf(t, folder) {
			explained = explained || file.Doc.Text() != ""
			for _, declaration := range file.Decls {
				switch d := declaration.(type) {
				case *ast.FuncDecl:
					if d.Name.IsExported() && (d.Recv == nil || exportedReceiver(d)) && d.Name.Name != "String" {
						assert.NotEmpty(t, d.Doc.Text(), "%s: %s", folder, d.Name.Name)
					}
				case *ast.GenDecl:
					for _, spec := range d.Specs {
						var names []*ast.Ident
						text := d.Doc.Text()
						switch s := spec.(type) {
						case *ast.TypeSpec:
							names, text = []*ast.Ident{s.Name}, text+s.Doc.Text()
						case *ast.ValueSpec:
							names, text = s.Names, text+s.Doc.Text()+s.Comment.Text()
						}
						for _, name := range names {
							assert.True(t, !name.IsExported() || text != "", "%s: %s", folder, name.Name)
						}
					}
				}
			}
		}
		assert.True(t, explained, folder)
	}
}

func exportedReceiver(f *ast.FuncDecl) bool {
	receiver := f.Recv.List[0].Type
	if pointer, ok := receiver.(*ast.StarExpr); ok {
		receiver = pointer.X
	}
	if generic, ok := receiver.(*ast.IndexExpr); ok {
		receiver = generic.X
	}
	name, ok := receiver.(*ast.Ident)
	return ok && name.IsExported()
}

// Each type that users make or get has an example. Each example can be run as the package page shows it: it has output, and calls no function that
// the page does not show.
func TestDoc_EachTypeHasAnExample(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	var tests []*ast.File
	local := map[string]bool{}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		require.NoError(t, err)
		tests = append(tests, file)
		for _, declaration := range file.Decls {
			if function, ok := declaration.(*ast.FuncDecl); ok && function.Recv == nil {
				local[function.Name.Name] = true
			}
		}
	}
	var code strings.Builder
	examples := doc.Examples(tests...)
	assert.GreaterOrEqual(t, len(examples), 35)
	for _, example := range examples {
		assert.NotEmpty(t, example.Output, example.Name)
		code.WriteString("Example" + example.Name + "\n")
		ast.Inspect(example.Code, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if pkg, ok := n.X.(*ast.Ident); ok && pkg.Name == "holdfast" {
					code.WriteString("holdfast." + n.Sel.Name + "\n")
				}
			case *ast.CallExpr:
				if called, ok := n.Fun.(*ast.Ident); ok {
					assert.False(t, local[called.Name], "%s calls %s, which a package page does not show", example.Name, called.Name)
				}
			}
			return true
		})
	}
	for _, declared := range typesOf(t, ".") {
		if name := declared.Name.Name; declared.Name.IsExported() && !declared.Assign.IsValid() {
			if name == "Leader" {
				name = "Election_Watch" // this iterator yields values of type Leader
			}
			shown := regexp.MustCompile(`(?m)^(holdfast\.` + name + `|ExampleRuntime_` + name + `|Example` + name + `(_.*)?)$`)
			assert.True(t, shown.MatchString(code.String()), name)
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

// functionBody returns the text between the braces of a function, moved to the left margin.
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
