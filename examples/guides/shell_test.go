package guides

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The shell lines of the documents are valid shell. They name only targets of the Makefile, packages, commands of holdfast and commands of
// Redis that exist. To check the commands of Redis, the test sends them to a server.
func TestGuides_ShellLinesCallWhatExists(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	client := redistest.Start(t).Client(t)
	listed, err := exec.Command("git", "-C", root, "ls-files", "*.md").Output()
	if err != nil {
		t.Skip("not a clone: ", err)
	}
	var checked []string
	for document := range strings.Lines(string(listed)) {
		document = filepath.Join(root, strings.TrimSpace(document))
		text, err := os.ReadFile(document)
		require.NoError(t, err)
		for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
			out, err := exec.Command("bash", "-n", "-c", block[1]).CombinedOutput()
			require.NoError(t, err, "%s: %s", document, out)
			folder := filepath.Dir(document)
			for line := range strings.Lines(block[1]) {
				words := strings.Fields(strings.ReplaceAll(strings.Split(line, " #")[0], "'", ""))
				checked = append(checked, words[0])
				for _, word := range words[1:] {
					if strings.HasPrefix(word, "./") {
						assert.DirExists(t, filepath.Join(folder, word), line)
					}
				}
				switch words[0] {
				case "cd":
					folder = filepath.Join(root, words[1])
				case "make":
					assert.Regexp(t, `(?m)^`+words[1]+`:`, string(makefile), document)
				case "holdfast":
					out, err := exec.Command("go", "run", filepath.Join(root, "cmd", "holdfast"), "help", words[1]).CombinedOutput()
					require.NoError(t, err, "%s: %s", line, out)
				case "redis-cli":
					if words[1] == "SUBSCRIBE" {
						_, err = client.Subscribe(t.Context(), words[2]).Receive(t.Context())
					} else if err = client.Do(t.Context(), fields(words[1:])...).Err(); err != nil && err.Error() == "redis: nil" {
						err = nil // there is no such key
					}
					require.NoError(t, err, line)
				}
			}
		}
	}
	for _, command := range []string{"go", "make", "holdfast", "redis-cli"} {
		assert.Contains(t, checked, command)
	}
}

func fields(words []string) (all []any) {
	for _, word := range words {
		all = append(all, word)
	}
	return all
}
