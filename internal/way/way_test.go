package way_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/gosource"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

const module = "github.com/holdfast-go/holdfast"

// covered are the packages whose functions count: those that a user's program contains.
var covered = []string{module, module + "/actors/...", module + "/scripts", module + "/protocol", module + "/timerwheel"}

// longest has a limit for each way. Lower a limit when its way gets shorter.
var longest = map[string]way{
	"acquire": {functions: 156, files: 39, posts: 2},
	"release": {functions: 140, files: 38, posts: 2},
	// The figures depend on the order in which the answer, the subscription and the release's message arrive: 213 to 242 functions and 9 to
	// 12 posts were seen.
	"woken": {functions: 242, files: 52, posts: 13},
}

type way struct{ functions, files, posts int }

func TestWay_IsNoLongerThanWrittenDown(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it measures, so it runs alone, in a step of .ci/run")
	}
	walker := build(t)
	idle := walker.counts("nothing")
	for _, what := range slices.Sorted(maps.Keys(longest)) {
		ran := walker.counts(what)
		for function := range idle {
			delete(ran, function)
		}
		is, most := wayOf(ran), longest[what]
		t.Logf("%s: %d functions in %d files, %d posts\n%s", what, is.functions, is.files, is.posts, listing(ran))
		assert.Positive(t, is.posts, "the way goes through an actor")
		assert.LessOrEqual(t, is.functions, most.functions, "%s: functions", what)
		assert.LessOrEqual(t, is.files, most.files, "%s: files", what)
		assert.LessOrEqual(t, is.posts, most.posts, "%s: posts", what)
	}
}

func wayOf(ran map[function]int) (w way) {
	files := map[string]bool{}
	for f, times := range ran {
		files[f.file] = true
		if f.name == "Mailbox.PostUserMessage" {
			w.posts = times
		}
	}
	w.functions, w.files = len(ran), len(files)
	return w
}

func listing(ran map[function]int) string {
	var lines []string
	for f, times := range ran {
		lines = append(lines, fmt.Sprintf("  %s %s %d", f.file, f.name, times))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// function is a named function; function literals belong to the function that contains them.
type function struct{ file, name string }

// walker is the program walk, built with coverage counters.
type walker struct {
	t       *testing.T
	program string
	addr    string
	starts  map[string]map[string]function // by file: where its functions begin
}

func build(t *testing.T) *walker {
	w := &walker{t: t, program: filepath.Join(t.TempDir(), "walk"), addr: redistest.Start(t).Addr(), starts: map[string]map[string]function{}}
	w.run(nil, "go", "build", "-cover", "-covermode=atomic", "-coverpkg="+strings.Join(append(covered, module+"/internal/way/walk"), ","), "-o", w.program, "./walk")
	return w
}

func (w *walker) run(env []string, program string, args ...string) {
	w.t.Helper()
	command := exec.Command(program, args...)
	command.Env = append(os.Environ(), env...)
	out, err := command.CombinedOutput()
	require.NoError(w.t, err, "%s %q: %s", program, args, out)
}

// counts returns for each function how often it ran: the median of several runs of an operation. Functions whose median is zero are left out.
func (w *walker) counts(operation string) map[function]int {
	w.t.Helper()
	folder := w.t.TempDir()
	w.run([]string{"GOCOVERDIR=" + w.t.TempDir()}, w.program, w.addr, operation, folder)
	runs, err := os.ReadDir(folder)
	require.NoError(w.t, err)
	require.NotEmpty(w.t, runs)
	each := map[function][]int{}
	for _, run := range runs {
		for f, times := range w.countsOf(filepath.Join(folder, run.Name())) {
			each[f] = append(each[f], times)
		}
	}
	median := map[function]int{}
	for f, times := range each {
		times = append(times, make([]int, len(runs)-len(times))...)
		slices.Sort(times)
		if m := times[len(times)/2]; m > 0 {
			median[f] = m
		}
	}
	return median
}

var block = regexp.MustCompile(`(?m)^` + module + `/(\S+):(\d+\.\d+),\S+ \d+ (\d+)$`)

// countsOf reads the counters of one run.
func (w *walker) countsOf(folder string) map[function]int {
	w.t.Helper()
	text := filepath.Join(w.t.TempDir(), "text")
	w.run(nil, "go", "tool", "covdata", "textfmt", "-i="+folder, "-o="+text)
	profile, err := os.ReadFile(text)
	require.NoError(w.t, err)
	blocks := block.FindAllStringSubmatch(string(profile), -1)
	require.NotEmpty(w.t, blocks, "%s", profile[:min(len(profile), 500)])
	ran := map[function]int{}
	for _, b := range blocks {
		if f, starts := w.startsOf(b[1])[b[2]]; starts && b[3] != "0" && !strings.HasPrefix(b[1], "internal/") {
			times, err := strconv.Atoi(b[3])
			require.NoError(w.t, err)
			ran[f] = times
		}
	}
	return ran
}

// startsOf returns the functions of a file by the line and column of their bodies' first block.
func (w *walker) startsOf(file string) map[string]function {
	if known, ok := w.starts[file]; ok {
		return known
	}
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, filepath.Join("..", "..", file), nil, parser.SkipObjectResolution)
	require.NoError(w.t, err)
	starts := map[string]function{}
	for _, declaration := range parsed.Decls {
		if f, ok := declaration.(*ast.FuncDecl); ok && f.Body != nil {
			at := files.Position(f.Body.Lbrace)
			starts[fmt.Sprintf("%d.%d", at.Line, at.Column)] = function{file, gosource.FunctionName(f)}
		}
	}
	w.starts[file] = starts
	return starts
}
