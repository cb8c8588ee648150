package sim

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/holdfast-go/holdfast/internal/gosource"
)

// Overlay writes a file for `go build -overlay`, and returns its path. A build with it contains all runtime mutants, each behind a switch.
// The shipped runtime contains no mutant, and the test runtime contains all of the shipped code.
func Overlay(module, scratch string) (file string, err error) {
	functions, err := findFunctions(module)
	if err != nil {
		return "", err
	}
	changed := map[string]string{filepath.Join(module, "internal", "sim", "broken.go"): simSwitch} // by path
	for _, m := range RuntimeMutants {
		for _, e := range m.runtime {
			paths := functions[e.function]
			if len(paths) != 1 {
				return "", fmt.Errorf("mutant %q: the function %s is in %d files %v, must be in one", m.Name, e.function, len(paths), paths)
			}
			if changed[paths[0]], err = breakFunction(changed[paths[0]], paths[0], e); err != nil {
				return "", fmt.Errorf("mutant %q: %w", m.Name, err)
			}
		}
	}
	replace := map[string]string{}
	for path, source := range changed {
		to := filepath.Join(scratch, strings.ReplaceAll(strings.TrimPrefix(path, module), string(filepath.Separator), "_"))
		if err := os.WriteFile(to, []byte(source), 0o600); err != nil {
			return "", err
		}
		replace[path] = to
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file = filepath.Join(scratch, "overlay.json")
	return file, os.WriteFile(file, text, 0o600)
}

// findFunctions returns the files of the functions that may have mutants, by the function's name (package.Type.Method or package.Function).
func findFunctions(module string) (map[string][]string, error) {
	functions := map[string][]string{}
	look := func(path string) error {
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return eachFunction(path, string(source), func(name string, _, _ int) { functions[name] = append(functions[name], path) })
	}
	root, err := filepath.Glob(filepath.Join(module, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, path := range root {
		if !strings.HasSuffix(path, "_test.go") {
			if err := look(path); err != nil {
				return nil, err
			}
		}
	}
	return functions, filepath.WalkDir(filepath.Join(module, "actors"), func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		return look(path)
	})
}

// eachFunction calls f for each function of a file with its name (package.Type.Method or package.Function) and its range in the source.
func eachFunction(path, source string, f func(name string, from, to int)) error {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, path, source, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, declaration := range parsed.Decls {
		if function, ok := declaration.(*ast.FuncDecl); ok {
			f(parsed.Name.Name+"."+gosource.FunctionName(function), files.Position(function.Pos()).Offset, files.Position(function.End()).Offset)
		}
	}
	return nil
}

var packageClause = regexp.MustCompile(`(?m)^package \w+$`)

// breakFunction applies an edit to one function of a file and returns the source. An empty source means the file on disk.
func breakFunction(source, path string, e edit) (string, error) {
	if source == "" {
		read, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		source = packageClause.ReplaceAllString(string(read), "$0\n\nimport \"github.com/holdfast-go/holdfast/internal/sim/mutation\"")
	}
	broken := ""
	err := eachFunction(path, source, func(name string, from, to int) {
		if function := source[from:to]; name == e.function && strings.Count(function, e.old) == 1 {
			broken = source[:from] + strings.Replace(function, e.old, e.replacement, 1) + source[to:]
		}
	})
	if err == nil && broken == "" {
		err = fmt.Errorf("%q must be once in %s", e.old, e.function)
	}
	return broken, err
}

const simSwitch = `package sim

import "github.com/holdfast-go/holdfast/internal/sim/mutation"

func breakRuntime(name string) bool {
	mutation.Switch(name)
	return true
}
`
