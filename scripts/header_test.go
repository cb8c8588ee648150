package scripts_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/scripts"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files in testdata/ again")

func files(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.NotEmpty(t, found)
	return found
}

func text(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(b)
}

// written returns the scripts that have a file. The scripts for many locks and for a migration are made from these.
func written() []*scripts.Script {
	var made []*scripts.Script
	for _, s := range scripts.All() {
		made = append(made, s.Many, s.Migrating)
	}
	return slices.DeleteFunc(slices.Clone(scripts.All()), func(s *scripts.Script) bool { return slices.Contains(made, s) })
}

func TestScripts_EveryFileIsLoaded(t *testing.T) {
	t.Parallel()
	var loaded []string
	for _, s := range written() {
		loaded = append(loaded, s.Name+".lua")
	}
	assert.ElementsMatch(t, files(t, "*.lua"), loaded)
}

func TestScripts_EveryIncludeIsUsed(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	for _, s := range scripts.All() {
		all.WriteString(s.Source)
	}
	for _, file := range files(t, "lib/*.lua") {
		assert.Contains(t, all.String(), text(t, file), file)
	}
}

var parameter = regexp.MustCompile(`(?m)^-- (KEYS|ARGV)\[(\w+)\] (\w+)`)

// A header names the file, every key and every argument, and ends with the results of the script. The code below the header
// assigns each key and argument to its name in the header, exactly once, and uses no other index of KEYS or ARGV.
func TestScripts_HeadersAreTrue(t *testing.T) {
	t.Parallel()
	for _, file := range files(t, "*.lua") {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			source := text(t, file)
			header, body, found := strings.Cut(source, "\nlocal ")
			require.True(t, found)
			assert.True(t, strings.HasPrefix(header, "-- "+strings.TrimSuffix(file, ".lua")+": "), "the header begins with the name of the file")
			assert.Regexp(t, `(?m)^-- Returns .+`, header)
			assert.LessOrEqual(t, strings.Count(source, "\n"), 80)
			for _, line := range strings.Split(strings.TrimSpace(header), "\n") {
				assert.True(t, strings.HasPrefix(line, "--"), "the header is one comment: %q", line)
			}
			var names, places []string
			next := map[string]int{"KEYS": 1, "ARGV": 1}
			for _, p := range parameter.FindAllStringSubmatch(header, -1) {
				if p[2] == "n" {
					continue // a list, which the script walks through
				}
				assert.Equal(t, fmt.Sprint(next[p[1]]), p[2], "%s of the header are numbered from 1", p[1])
				next[p[1]]++
				names, places = append(names, p[3]), append(places, p[1]+"["+p[2]+"]")
			}
			for i, name := range names {
				assert.Regexp(t, `(?s)(^|[ ,])`+name+`[ ,].*?`+regexp.QuoteMeta(places[i]), body, "%s is bound to %s", places[i], name)
				assert.Equal(t, 1, strings.Count(body, places[i]), "%s is used through its name only", places[i])
			}
			for _, used := range regexp.MustCompile(`(KEYS|ARGV)\[\d+\]`).FindAllString(body, -1) {
				assert.Contains(t, places, used, "the header knows %s", used)
			}
		})
	}
}

// Writes come after every check: Redis does not roll a script back.
func TestScripts_ChecksComeFirst(t *testing.T) {
	t.Parallel()
	write := regexp.MustCompile(`redis\.call\('(hset|hdel|del|pexpire|set|incrby|decrby|zadd|rpush)'|redis\.call\(publish|= (drop_stale|leave|take)\(`)
	for _, s := range written() {
		if s.Name == "lock_renew" {
			continue // a renewal script checks each lock right before renewing it; a renewal needs no rollback
		}
		own := text(t, s.Name+".lua") // without the includes, which only define functions
		if at := write.FindStringIndex(own); at != nil {
			assert.NotContains(t, own[at[0]:], "error_reply", s.Name)
		}
	}
}

func TestScripts_AssembledTextIsGolden(t *testing.T) {
	t.Parallel()
	for _, s := range scripts.All() {
		golden := filepath.Join("testdata", "assembled", s.Name+".lua")
		if *rewrite {
			require.NoError(t, os.MkdirAll(filepath.Dir(golden), 0o755))
			require.NoError(t, os.WriteFile(golden, []byte(s.Source), 0o644))
		}
		assert.Equal(t, text(t, golden), s.Source, "make golden updates it")
	}
}

func TestScripts_RedisAcceptsThem(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	for _, s := range scripts.All() {
		sha, err := client.ScriptLoad(t.Context(), s.Source).Result()
		require.NoError(t, err, s.Name)
		assert.Equal(t, s.SHA, sha, s.Name)
	}
}
