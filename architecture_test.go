package holdfast_test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/holdfast-go/holdfast"

// dependencies returns the packages that end up in the binary of a program that imports pkg.
func dependencies(t *testing.T, pkg string) []string {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", pkg).Output()
	require.NoError(t, err)
	return strings.Fields(string(out))
}

// mayImport maps each part of the module that users get to the other parts that its packages may import, directly or indirectly.
// The engine is root -> actors -> scripts -> protocol, and actors -> timerwheel.
var mayImport = map[string][]string{
	"protocol":     {},
	"timerwheel":   {},
	"cmd":          {"", "actors", "inspect", "protocol", "scripts", "timerwheel", "web"},
	"embedded":     {},
	"holdfasttest": {"", "actors", "internal", "protocol", "scripts", "timerwheel"},
	"inspect":      {"protocol", "scripts"},
	"scripts":      {"protocol"},
	"actors":       {"protocol", "scripts", "timerwheel"},
	"web":          {"inspect", "protocol", "scripts"},
	"":             {"actors", "protocol", "scripts", "timerwheel"},
}

// part returns the part of the module that a package belongs to: the first folder on its path, or "" for the root.
func part(pkg string) (folder string, ours bool) {
	within, ours := strings.CutPrefix(pkg+"/", module+"/")
	folder, _, _ = strings.Cut(within, "/")
	return folder, ours
}

// shipped returns the packages that users may import, by part.
func shipped(t *testing.T) map[string][]string {
	t.Helper()
	out, err := exec.Command("go", "list", "./...").Output()
	require.NoError(t, err)
	packages := map[string][]string{}
	for _, pkg := range strings.Fields(string(out)) {
		folder, ours := part(pkg)
		require.True(t, ours, pkg)
		if folder != "internal" && folder != "examples" && folder != "interop" {
			packages[folder] = append(packages[folder], pkg)
		}
	}
	require.Len(t, packages, len(mayImport), "mayImport has an entry for each part")
	return packages
}

func TestArchitecture_ImportsGoOneWay(t *testing.T) {
	t.Parallel()
	for folder, packages := range shipped(t) {
		allowed, known := mayImport[folder]
		require.True(t, known, "mayImport has no entry for %s", folder)
		for _, pkg := range packages {
			for _, dependency := range dependencies(t, pkg) {
				if from, ours := part(dependency); ours && from != folder {
					assert.Contains(t, allowed, from, "%s must not import %s", pkg, dependency)
				}
			}
		}
	}
}

// mayUse lists, for each package of the engine, which other packages of the engine it may import. A reader can then understand the package without
// the rest.
var mayUse = map[string][]string{
	"actors":           {"actors/api", "actors/clock", "actors/counter", "actors/gateway", "actors/lease", "actors/lock", "actors/mailbox", "actors/outbox", "actors/preflight", "actors/pubsub", "actors/redisnode", "actors/rpc", "actors/trace", "actors/turns", "actors/wait", "actors/watchdog"},
	"actors/api":       {"actors/clock", "actors/lease", "actors/outbox", "actors/rpc", "actors/trace", "actors/turns", "actors/wait"},
	"actors/clock":     {},
	"actors/counter":   {"actors/clock", "actors/lease", "actors/rpc", "actors/trace", "actors/turns", "actors/wait"},
	"actors/gateway":   {"actors/clock", "actors/lease", "actors/outbox", "actors/redisnode", "actors/rpc", "actors/trace"},
	"actors/lease":     {},
	"actors/lock":      {"actors/clock", "actors/lease", "actors/rpc", "actors/trace", "actors/turns", "actors/wait"},
	"actors/mailbox":   {},
	"actors/outbox":    {"actors/clock"},
	"actors/preflight": {"actors/clock", "actors/redisnode", "actors/rpc"},
	"actors/pubsub":    {"actors/clock", "actors/outbox", "actors/lease", "actors/redisnode", "actors/rpc", "actors/trace", "actors/turns", "actors/wait"},
	"actors/redisnode": {"actors/clock", "actors/rpc"},
	"actors/rpc":       {"actors/clock"},
	"actors/turns":     {"actors/clock"},
	"actors/trace":     {"actors/clock", "actors/lease"},
	"actors/wait":      {"actors/clock", "actors/lease", "actors/rpc", "actors/trace", "actors/turns"},
	"actors/watchdog":  {"actors/clock", "actors/gateway", "actors/lease", "actors/outbox", "actors/redisnode", "actors/rpc", "actors/trace"},
}

func TestArchitecture_EngineImportsGoOneWay(t *testing.T) {
	t.Parallel()
	packages := shipped(t)["actors"]
	require.Len(t, packages, len(mayUse), "mayUse has an entry for each package")
	for _, pkg := range packages {
		own := strings.TrimPrefix(pkg, module+"/")
		allowed, known := mayUse[own]
		require.True(t, known, "mayUse has no entry for %s", own)
		for _, dependency := range dependencies(t, pkg) {
			if path, ours := strings.CutPrefix(dependency, module+"/"); ours && path != own && strings.HasPrefix(path, "actors") {
				assert.Contains(t, allowed, path, "%s must not import %s", own, path)
			}
		}
	}
}

// The state machines of the engine depend only on their inputs: they use no connection, no actor system, no clock and no goroutines.
func TestArchitecture_MachinesArePure(t *testing.T) {
	t.Parallel()
	impure := regexp.MustCompile(`protoactor|go-redis|time\.Now\(|\tgo (func|\w+\()|\tselect \{|"sync/|sync\.(Mutex|RWMutex|WaitGroup|Once|Cond|Map)`)
	for _, folder := range []string{"actors/counter", "actors/lock", "actors/turns", "actors/wait"} {
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") {
				assert.NotRegexp(t, impure, read(t, file), file)
			}
		}
	}
}

// ARCHITECTURE.md has a row for each package, and the files and functions that it names exist.
func TestArchitecture_DocumentIsTrue(t *testing.T) {
	t.Parallel()
	text := read(t, "ARCHITECTURE.md")
	var source strings.Builder
	files := map[string]bool{}
	for _, packages := range shipped(t) {
		for _, pkg := range packages {
			folder := strings.TrimPrefix(strings.TrimPrefix(pkg, module), "/")
			if folder != "" {
				assert.Contains(t, text, "\n| `"+folder+"` |")
			}
			paths, err := filepath.Glob(filepath.Join(".", folder, "*.go"))
			require.NoError(t, err)
			for _, path := range paths {
				files[filepath.Base(path)] = true
				source.WriteString(read(t, path))
			}
		}
	}
	named := regexp.MustCompile("`(?:[a-z]+/)*([a-z_]+\\.go)`").FindAllStringSubmatch(text, -1)
	require.NotEmpty(t, named)
	for _, file := range named {
		assert.True(t, files[file[1]], "there is no %s", file[1])
	}
	functions := regexp.MustCompile("`(?:[a-z]+\\.)?((?:on|new|start)[A-Z]\\w+|settle|attempt|step|hear|give)`").FindAllStringSubmatch(text, -1)
	require.NotEmpty(t, functions)
	for _, function := range functions {
		assert.Contains(t, source.String(), " "+function[1]+"(", "there is no %s", function[1])
	}
}

// A user's binary contains nothing that only tests need, and no embedded Redis unless the program imports it.
func TestArchitecture_UsersGetNoTestCode(t *testing.T) {
	t.Parallel()
	unwanted := regexp.MustCompile(`^testing$|stretchr/testify|miniredis|gopher-lua|goleak|holdfast/internal|porcupine`)
	for _, dependency := range dependencies(t, module) {
		assert.NotRegexp(t, unwanted, dependency)
	}
}

// Nothing that is sent to Redis comes from a wall clock: no code converts a time to a Unix timestamp. (Instants count from the runtime's start, and
// the server's time comes from the server.)
func TestArchitecture_NoWallClockIsSent(t *testing.T) {
	t.Parallel()
	for folder, packages := range shipped(t) {
		looked := 0
		for _, pkg := range packages {
			files, err := filepath.Glob(filepath.Join(".", strings.TrimPrefix(pkg, module), "*.go"))
			require.NoError(t, err)
			for _, file := range files {
				if !strings.HasSuffix(file, "_test.go") {
					looked++
					assert.NotRegexp(t, `\.(Unix|UnixMilli|UnixMicro|UnixNano)\(`, read(t, file), file)
				}
			}
		}
		assert.Positive(t, looked, "files of %s", folder)
	}
}

// Only internal/linearize imports porcupine, the checker of histories.
func TestArchitecture_PorcupineIsForOnePackage(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-test", "-f", "{{.ImportPath}} {{.Imports}}", "./...").Output()
	require.NoError(t, err)
	imported := 0
	for line := range strings.Lines(string(out)) {
		pkg, imports, _ := strings.Cut(line, " ")
		if strings.Contains(imports, "github.com/anishathalye/porcupine") {
			imported++
			assert.Contains(t, pkg, module+"/internal/linearize")
		}
	}
	assert.Positive(t, imported)
}

// Visitors of the repository should see the library first, so the root folder has few tests.
func TestArchitecture_RootHasFewTests(t *testing.T) {
	t.Parallel()
	tests, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	assert.LessOrEqual(t, len(tests), 15, "internal/README.md says where a test goes")
}
