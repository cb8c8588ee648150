package machinetest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var rewrite = flag.Bool("rewrite", false, "write what the step did into the transcripts")

// Transcript is one case that is played.
type Transcript interface {
	SetPolicy(options []string)
	Play(line string)
	Take() string // the effects since the previous call
}

// PlayAll plays the files that match.
func PlayAll(t *testing.T, pattern string, start func(t *testing.T, title string) Transcript) {
	files, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			got := replay(t, string(text), start)
			if *rewrite {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
				return
			}
			compare(t, string(text), got)
		})
	}
}

// compare shows only the first difference. It would be hard to find in two whole files.
func compare(t *testing.T, want, got string) {
	t.Helper()
	wanted, gotten := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(wanted), len(gotten)) {
		if i >= len(wanted) || i >= len(gotten) || wanted[i] != gotten[i] {
			from := max(0, i-8)
			part := func(lines []string) string {
				return strings.Join(lines[min(from, len(lines)):min(i+8, len(lines))], "\n")
			}
			t.Fatalf("line %d\n--- wanted\n%s\n--- got\n%s\n\ngo test -run Transcripts -rewrite updates the file",
				i+1, part(wanted), part(gotten))
		}
	}
}

// replay plays a transcript and returns it with new effects: the effects that the machine emits now replace the recorded ones.
func replay(t *testing.T, text string, start func(t *testing.T, title string) Transcript) string {
	var out strings.Builder
	var p Transcript
	var messages []string
	skipping := false // skip old effects, up to the next empty line
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
			skipping = false
		case skipping:
			continue
		case strings.HasPrefix(line, "==="):
			p = start(t, line)
		case strings.HasPrefix(line, "policy "):
			p.SetPolicy(words(line)[1:])
		case strings.HasPrefix(line, "@"):
			messages = append(messages, line)
		case line == "----":
			skipping = true
			fmt.Fprintln(&out, line)
			for _, message := range messages {
				p.Play(message)
				out.WriteString(p.Take())
			}
			messages = nil
			continue
		case !strings.HasPrefix(line, "#"):
			t.Fatalf("%q is neither a message nor a comment", line)
		}
		fmt.Fprintln(&out, line)
	}
	require.Empty(t, messages, "messages without dashes below")
	return out.String()
}

// words splits a line at spaces outside of quotes.
func words(line string) []string {
	quoted := false
	fields := strings.FieldsFunc(line, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return r == ' ' && !quoted
	})
	for i, field := range fields {
		fields[i] = strings.ReplaceAll(field, `"`, "")
	}
	return fields
}
