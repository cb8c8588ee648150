package sim_test

import (
	"flag"
	"fmt"
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

	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/sim"
)

var (
	search = flag.Bool("sim.mutants", false, "look for every mutant from the first world on, and write the table in SAFETY.md")
	broken = flag.Bool("sim.broken", false, "this binary has the mutants of the runtime built in: TestMutants_Runtime looks for them here")
	only   = flag.String("sim.mutant", "", "test this mutant alone; with -sim.seed, run that world with it")
	sound  = flag.Bool("sim.sound", false, "with -sim.seed and -sim.mutant: the mutant's world, with nothing broken")
)

const worldsMax = 500 // how many worlds may run without noticing a mutant

// found says which world noticed a mutant, and how.
type found struct {
	mutant *sim.Mutant
	world  int // from 1, or 0 if no world has noticed it
	by     string
}

// Every broken script is noticed. TestMutants_Runtime does the same for broken runtimes.
func TestMutants_Scripts(t *testing.T) {
	skipRaced(t)
	report(t, "scripts", lookFor(t, sim.ScriptMutants))
}

// Every broken runtime is noticed. The mutants change the runtime's source, so the test builds a copy.
//
// Without -sim.mutants, the test first tries the world that the table in SAFETY.md names for the mutant. It tries other worlds only if that world
// does not notice the mutant. A world is the same in every run, but a change of the runtime can change it. The command "make mutants" searches
// from the first world.
func TestMutants_Runtime(t *testing.T) {
	if *broken {
		for _, f := range lookFor(t, sim.RuntimeMutants) {
			fmt.Printf("mutant %s: world %d: %s\n", f.mutant.Name, f.world, f.by)
		}
		return
	}
	skipRaced(t)
	if testing.Short() {
		t.Skip("it takes minutes; .ci/run has a step for it")
	}
	module, scratch := moduleRoot(t), t.TempDir()
	overlay, err := sim.Overlay(module, scratch)
	require.NoError(t, err)
	binary := filepath.Join(scratch, "broken.test")
	run := func(name string, args ...string) string {
		command := exec.CommandContext(t.Context(), name, args...)
		command.Dir = filepath.Join(module, "internal", "sim")
		out, err := command.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	run("go", "test", "-overlay", overlay, "-c", "-o", binary, ".")
	out := run(binary, "-test.run", "^"+t.Name()+"$", "-test.timeout", "60m", "-sim.broken", "-sim.mutants="+fmt.Sprint(*search), "-sim.mutant", *only)
	var all []found
	for _, line := range regexp.MustCompile(`(?m)^mutant (.*): world (\d+): (.*)$`).FindAllStringSubmatch(out, -1) {
		i := slices.IndexFunc(sim.RuntimeMutants, func(m sim.Mutant) bool { return m.Name == line[1] })
		require.GreaterOrEqual(t, i, 0)
		world, _ := strconv.Atoi(line[2])
		all = append(all, found{&sim.RuntimeMutants[i], world, line[3]})
	}
	if *only == "" {
		assert.Len(t, all, len(sim.RuntimeMutants))
	}
	report(t, "runtime", all)
}

// lookFor runs worlds with each mutant until one notices it.
func lookFor(t *testing.T, mutants []sim.Mutant) (all []found) {
	table := readTable(t)
	for i := range mutants {
		m := &mutants[i]
		if *only != "" && *only != m.Name {
			continue
		}
		f := found{mutant: m}
		for world := range worldsMax + 1 {
			if world == 0 { // the world from the table
				if world = table[m.Name].world; *search || world == 0 {
					continue
				}
			}
			if by := noticed(t, uint64(world), *m); by != "" {
				f.world, f.by = world, by
				break
			}
		}
		all = append(all, f)
	}
	return all
}

// noticed says how a world notices a mutant; "" means that it does not.
func noticed(t *testing.T, seed uint64, m sim.Mutant) (by string) {
	defer func() {
		if reason := recover(); reason != nil {
			by = fmt.Sprint("the bubble: ", reason)
		}
	}()
	if report := run(t, seed, m); len(report.Violations) > 0 {
		return report.Violations[0]
	}
	return ""
}

func report(t *testing.T, part string, all []found) {
	for _, f := range all {
		t.Logf("%s: world %d: %s", f.mutant.Name, f.world, f.by)
		assert.NotZero(t, f.world, "mutant %q has survived", f.mutant.Name)
	}
	if *search && *only == "" && !t.Failed() {
		writeTable(t, part, all)
	}
}

// In the worlds in which mutants are looked for, the oracle reports nothing if nothing is broken.
func TestMutants_Sound(t *testing.T) {
	skipRaced(t)
	seen := map[string]bool{}
	for _, m := range slices.Concat(sim.ScriptMutants, sim.RuntimeMutants) {
		whole := m.Sound()
		key := fmt.Sprintf("%+v", whole)
		if seen[key] || *only != "" && *only != m.Name {
			continue
		}
		seen[key] = true
		worlds := *count
		if worlds == 0 {
			worlds = locktest.Scaled(40, 5)
		}
		for world := range uint64(worlds) {
			report := run(t, *first+world, whole)
			assert.Empty(t, report.Violations, "%s: go test ./internal/sim -run TestSim -sim.seed=%d -sim.sound -sim.mutant=%q -v",
				report.Plan, *first+world, m.Name)
		}
	}
}

// The table in SAFETY.md lists exactly the mutants, and what each breaks.
func TestMutants_TableIsComplete(t *testing.T) {
	table := readTable(t)
	all := slices.Concat(sim.ScriptMutants, sim.RuntimeMutants)
	for _, m := range all {
		assert.Equal(t, m.Breaks, table[m.Name].breaks, "mutant %q; make mutants writes the table", m.Name)
		assert.NotZero(t, table[m.Name].world, m.Name)
	}
	assert.Len(t, table, len(all))
}

// Every script mutant changes a script.
func TestMutants_ChangeScripts(t *testing.T) {
	var sources []string
	for _, folder := range []string{"scripts", filepath.Join("scripts", "lib")} {
		files, err := filepath.Glob(filepath.Join(moduleRoot(t), folder, "*.lua"))
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			sources = append(sources, string(text))
		}
	}
	for _, m := range sim.ScriptMutants {
		assert.True(t, slices.ContainsFunc(sources, m.Changes), m.Name)
	}
}

// Every runtime mutant finds the function that it changes.
func TestMutants_ChangeFunctions(t *testing.T) {
	t.Parallel()
	_, err := sim.Overlay(moduleRoot(t), t.TempDir())
	require.NoError(t, err)
}

// skipRaced skips the test under the race detector, because TestSim runs the same worlds under it.
func skipRaced(t *testing.T) {
	if locktest.Raced() {
		t.Skip("ten times as slow with the race detector, which finds nothing more here")
	}
}

type row struct {
	breaks, by string
	world      int
}

var rowPattern = regexp.MustCompile(`^\| (.+) \| (.+) \| (.+) \| (\d+) \|$`)

func readTable(t *testing.T) map[string]row {
	t.Helper()
	table := map[string]row{}
	for _, part := range []string{"scripts", "runtime"} {
		_, lines, _ := cutTable(t, part)
		for line := range strings.Lines(lines) {
			if m := rowPattern.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
				world, _ := strconv.Atoi(m[4])
				table[m[1]] = row{m[2], m[3], world}
			}
		}
	}
	return table
}

// cutTable splits SAFETY.md into the text before a table, the table and the text after it.
func cutTable(t *testing.T, part string) (before, table, after string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(moduleRoot(t), "SAFETY.md"))
	require.NoError(t, err)
	begin, end := fmt.Sprintf("<!-- mutants, %s: written by make mutants -->\n", part), fmt.Sprintf("<!-- mutants, %s: end -->\n", part)
	before, rest, ok := strings.Cut(string(text), begin)
	require.True(t, ok, begin)
	table, after, ok = strings.Cut(rest, end)
	require.True(t, ok, end)
	return before + begin, table, end + after
}

var assertion = regexp.MustCompile(`\b[AH]\d+\b`)

func writeTable(t *testing.T, part string, all []found) {
	before, _, after := cutTable(t, part)
	table := "| mutant | what it breaks | caught by | in scenario |\n| --- | --- | --- | --- |\n"
	for _, f := range all {
		by := assertion.FindString(f.by)
		if by == "" {
			by = "the bubble"
		}
		table += fmt.Sprintf("| %s | %s | %s | %d |\n", f.mutant.Name, f.mutant.Breaks, by, f.world)
	}
	require.NoError(t, os.WriteFile(filepath.Join(moduleRoot(t), "SAFETY.md"), []byte(before+table+after), 0o600))
}

func moduleRoot(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	return root
}
