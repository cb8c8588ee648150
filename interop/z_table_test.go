package interop

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The scenarios in which every kind is tested, with their names in the table.
const (
	handOver = "%s holds, %s waits"
	rounds   = "rounds"
	expires  = "lease of %s ends"
	watchdog = "watchdog of %s"
	forced   = "forced by %s"
)

var columns = []string{
	fmt.Sprintf(handOver, "Java", "Go"), fmt.Sprintf(handOver, "Go", "Java"), rounds,
	fmt.Sprintf(expires, "Java"), fmt.Sprintf(expires, "Go"), fmt.Sprintf(watchdog, "Java"), fmt.Sprintf(watchdog, "Go"),
	fmt.Sprintf(forced, "Java"), fmt.Sprintf(forced, "Go"),
}

var (
	rewrite = flag.Bool("rewrite", false, "write the table into README.md")
	tableTo = flag.String("table", "", "write the table to this file, too")
)

// results are the figures that the tests report, by place, kind and scenario.
var results = struct {
	mu      sync.Mutex
	of      map[string]map[string]map[string]string
	besides map[string][]string
}{of: map[string]map[string]map[string]string{}, besides: map[string][]string{}}

// report records the figures of a scenario, or that the test has failed.
func (m *meeting) report(t *testing.T, scenario, figures string) {
	t.Helper()
	t.Logf("%s: %s", scenario, figures)
	if t.Failed() {
		figures = "FAILED"
	}
	results.mu.Lock()
	defer results.mu.Unlock()
	if !slices.Contains(columns, scenario) {
		results.besides[m.place.name] = append(results.besides[m.place.name], fmt.Sprintf("| %s | %s | %s |", m.kind.name, scenario, figures))
		return
	}
	at := results.of[m.place.name]
	if at == nil {
		at = map[string]map[string]string{}
		results.of[m.place.name] = at
	}
	if at[m.kind.name] == nil {
		at[m.kind.name] = map[string]string{}
	}
	at[m.kind.name][scenario] = figures
}

// table returns all results in Markdown.
func table() string {
	var b strings.Builder
	for _, where := range places {
		at := results.of[where.name]
		if at == nil {
			continue
		}
		fmt.Fprintf(&b, "### %s\n\n| kind | %s |\n|%s\n", where.title, strings.Join(columns, " | "), strings.Repeat(" --- |", len(columns)+1))
		for _, k := range kinds {
			fmt.Fprintf(&b, "| %s |", k.name)
			for _, column := range columns {
				figures := at[k.name][column]
				if figures == "" {
					figures = "–"
				}
				fmt.Fprintf(&b, " %s |", figures)
			}
			b.WriteString("\n")
		}
		if more := slices.Sorted(slices.Values(results.besides[where.name])); len(more) > 0 {
			fmt.Fprintf(&b, "\n| kind | besides | |\n| --- | --- | --- |\n%s\n", strings.Join(more, "\n"))
		}
		b.WriteString("\n")
	}
	return b.String()
}

const (
	tableBegins = "<!-- table: written by make interop -->\n"
	tableEnds   = "<!-- end of table -->\n"
)

// This is the last test: it writes the results of all others into a table.
func TestZ_Table(t *testing.T) {
	redisson(t)
	text := table()
	if *tableTo != "" {
		require.NoError(t, os.WriteFile(*tableTo, []byte(text), 0o600))
	}
	if !*rewrite {
		return
	}
	for _, where := range places {
		for _, k := range kinds {
			assert.NotEmpty(t, results.of[where.name][k.name], "%s at %s: no result; the table needs a run of all tests", k.name, where.name)
		}
	}
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(readme), tableBegins)
	require.True(t, ok, "README.md has the mark at the table's beginning")
	_, after, ok := strings.Cut(rest, tableEnds)
	require.True(t, ok, "README.md has the mark at the table's end")
	if !t.Failed() {
		require.NoError(t, os.WriteFile("README.md", []byte(before+tableBegins+"\n"+text+tableEnds+after), 0o600))
	}
}
