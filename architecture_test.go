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

// dependencies are the packages that end up in the binary of who imports this one.
func dependencies(t *testing.T, pkg string) []string {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", pkg).Output()
	require.NoError(t, err)
	return strings.Fields(string(out))
}

// root -> actors -> scripts -> protocol, actors -> timerwheel, and nothing else of the project.
func TestArchitecture_ImportsGoOneWay(t *testing.T) {
	t.Parallel()
	for pkg, allowed := range map[string][]string{
		"protocol":   {},
		"timerwheel": {},
		"embedded":   {},
		"scripts":    {"protocol"},
		"actors":     {"protocol", "scripts", "timerwheel"},
		"":           {"actors", "protocol", "scripts", "timerwheel"},
	} {
		self := strings.TrimSuffix(module+"/"+pkg, "/")
		for _, dependency := range dependencies(t, self) {
			if within, ours := strings.CutPrefix(dependency, module+"/"); ours && dependency != self {
				assert.Contains(t, allowed, within, "%s must not import %s", self, dependency)
			}
		}
	}
}

// A user's binary has nothing in it that only tests need, and no embedded Redis unless it asks for one.
func TestArchitecture_UsersGetNoTestCode(t *testing.T) {
	t.Parallel()
	unwanted := regexp.MustCompile(`^testing$|stretchr/testify|miniredis|gopher-lua|goleak|holdfast/internal|porcupine`)
	for _, dependency := range dependencies(t, module) {
		assert.NotRegexp(t, unwanted, dependency)
	}
}

// Nothing that is sent to Redis comes from a wall clock: nobody turns a time into a number. (Instants count from the runtime's start,
// and the server's time comes from the server.)
func TestArchitecture_NoWallClockIsSent(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{".", "actors", "scripts", "protocol", "timerwheel"} {
		files, err := filepath.Glob(folder + "/*.go")
		require.NoError(t, err)
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") {
				assert.NotRegexp(t, `\.(Unix|UnixMilli|UnixMicro|UnixNano)\(`, read(t, file), file)
			}
		}
	}
}

// What checks histories is imported by one package, which is internal.
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
