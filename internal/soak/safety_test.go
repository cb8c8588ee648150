package soak_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// SAFETY.md quotes the figures of the last reports.
func TestReport_SafetyHasItsFigures(t *testing.T) {
	t.Parallel()
	safety := strings.Join(strings.Fields(read(t, "../../SAFETY.md")), " ")
	for _, name := range []string{"REPORT.md", "CLUSTER.md"} {
		text := read(t, name)
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "In all ") {
				assert.True(t, strings.Contains(safety, strings.TrimSpace(line)), "SAFETY.md lacks a line of %s: %s", name, line)
			}
		}
		assert.True(t, strings.Contains(safety, figures(t, text)), "SAFETY.md lacks the figures of %s: %s", name, figures(t, text))
	}
}

func read(t *testing.T, file string) string {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

// figures returns the sentence of SAFETY.md that quotes the figures of a report.
func figures(t *testing.T, report string) string {
	served, scripts, connections, quiet := time.Duration(0), 0.0, 0.0, 0.0
	rows := table(report)
	require.Greater(t, len(rows), 1)
	for i, row := range rows {
		number := func(column string) float64 {
			n, err := strconv.ParseFloat(row[column], 64)
			require.NoError(t, err, column)
			return n
		}
		if i == 0 {
			quiet = number("scripts/s")
			continue
		}
		after, err := time.ParseDuration(row["served after"])
		require.NoError(t, err)
		served, scripts = max(served, after), max(scripts, number("scripts/s"))
		connections = max(connections, number("connections/s")/number("disturbed/s"))
	}
	return fmt.Sprintf("every process was served within %v of the last fault, at most %.0f scripts ran per second, %.0f without faults, and at most %.1f connections were opened for each that a fault disturbed",
		served, scripts, quiet, connections)
}

// table returns the rows of a table in Markdown, each by column.
func table(text string) (rows []map[string]string) {
	var columns []string
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		switch {
		case !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "| ---"):
		case columns == nil:
			columns = cells
		default:
			row := map[string]string{}
			for i, cell := range cells {
				row[columns[i]] = cell
			}
			rows = append(rows, row)
		}
	}
	return rows
}
