package interop

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/locktest"
)

var (
	previous = flag.String("versions.previous", "", "commit of the other version, instead of the one before the last change of a script")
	length   = flag.Int("versions.rounds", 1000, "how many rounds each of the three runtimes makes with each lock")
)

// A fleet may run two versions at the same time. Here the version before the last change of a script runs in a separate process, and contends with
// two runtimes of this version, one of them with lingering locks. All three increment a number in a file.
func TestVersions_ContendedRounds(t *testing.T) {
	contender := previousVersion(t)
	p := singleServer(t)
	for _, k := range kinds {
		if k.counter == "latch" {
			continue // a latch excludes nobody
		}
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			m, f := meet(t, p, k), newFiles(t)
			each := locktest.Scaled(*length, 20) / players &^ 1
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
			defer cancel()
			ours := m.ours(t, 0)
			require.NoError(t, ours.set(ctx, k, m.name, 1))
			began := time.Now()
			older := exec.CommandContext(ctx, contender, p.addr, k.name, m.name, fmt.Sprint(each), f.number, f.tokens)
			var group sync.WaitGroup
			group.Go(func() {
				out, err := older.CombinedOutput()
				assert.NoError(t, err, "the previous version: %s", out)
			})
			group.Go(func() { contend(ctx, t, m, each, f, ours, m.lingering(t, lingerOfRounds)) })
			group.Wait()
			n, err := f.read()
			require.NoError(t, err)
			want := 3 * players * each
			if k.rival != "" {
				want /= 2
			}
			assert.EqualValues(t, want, n)
			if k.theirs == "fenced" {
				increasing(t, f, int(n))
			}
			t.Logf("%d rounds of each, %d changes of side, %s", players*each, 2*f.switches.Load(), time.Since(began).Round(100*time.Millisecond))
		})
	}
}

// previousVersion builds the contender with an older version of Holdfast: the one before the last change of a script, or the one that the flag
// -versions.previous names. Outside a clone, and in a shallow clone, that version is not available, and the test is skipped.
func previousVersion(t *testing.T) string {
	const scripts = ":(glob)../scripts/**/*.lua"
	commit := *previous
	switch {
	case commit != "":
	case git(t, "status", "--porcelain", "--", scripts) == "":
		commit = git(t, "log", "-1", "--format=%H", "--", scripts) + "^"
	default:
		commit = "HEAD"
	}
	commit = git(t, "rev-parse", "--verify", commit+"^{commit}")
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	dir := t.TempDir()
	archive := filepath.Join(dir, "archive.tar")
	require.NoError(t, run(t, root, "git", "archive", "--output", archive, commit))
	require.NoError(t, run(t, dir, "tar", "-xf", archive))
	source, err := os.ReadFile("testdata/contender/main.go")
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "contender"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "contender", "main.go"), source, 0o600))
	args := []string{"build", "-o", "contender.bin"}
	if raceDetector() {
		args = append(args, "-race") // then the build cache already has the packages
	}
	require.NoError(t, run(t, dir, "go", append(args, "./contender")...))
	t.Logf("the previous version is %s", git(t, "log", "-1", "--format=%h %s", commit))
	return filepath.Join(dir, "contender.bin")
}

func raceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

func git(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput()
	if err != nil {
		t.Skipf("no previous version here: git %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func run(t *testing.T, dir, program string, args ...string) error {
	t.Helper()
	command := exec.CommandContext(t.Context(), program, args...)
	command.Dir = dir
	out, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, out)
	}
	return nil
}
