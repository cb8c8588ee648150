package report

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// quotable returns results without a flaw.
func quotable(t *testing.T) *Results {
	t.Helper()
	r := sample(t, []float64{100, 110}, []float64{10, 11})
	for i, v := range r.Versions {
		if v.Name == "holdfast" {
			r.Versions[i].Version = strings.Repeat("0", 40)
		}
	}
	for _, o := range r.Workloads[0].Outcomes {
		for _, f := range o.Repetitions {
			f["others_cpu_cores"] = quietCores / 2
		}
	}
	return r
}

func (r *Results) setCommit(to string) {
	for i := range r.Versions {
		if r.Versions[i].Name == "holdfast" {
			r.Versions[i].Version = to
		}
	}
}

func TestFlaws_NameWhatForbidsToQuote(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(r *Results)
		want  string
	}{
		"a quick run":           {func(r *Results) { r.Quick = true }, "quick"},
		"a dirty tree":          {func(r *Results) { r.setCommit("0123" + dirtyMark) }, "changes that are not in commit 0123"},
		"an unknown commit":     {func(r *Results) { r.setCommit(unknownCommit) }, "not known which commit"},
		"no commit":             {func(r *Results) { r.Versions = nil }, "not known which commit"},
		"one busy repetition":   {func(r *Results) { r.Workloads[0].Outcomes[1].Repetitions[1]["others_cpu_cores"] = 0.5 }, "hot-64: other programs used up to 50.0 % of a core, more than 10.0 % in 1 of 4"},
		"an unknown repetition": {func(r *Results) { delete(r.Workloads[0].Outcomes[0].Repetitions[0], "others_cpu_cores") }, "hot-64: it is not known whether the machine was quiet in 1 of 4"},
	} {
		t.Run(name, func(t *testing.T) {
			r := quotable(t)
			require.Empty(t, r.Flaws())
			c.spoil(r)
			flaws := r.Flaws()
			require.Len(t, flaws, 1)
			assert.Contains(t, flaws[0], c.want)
			page := filepath.Join(t.TempDir(), "page.html")
			require.NoError(t, r.WritePage(page))
			text, err := os.ReadFile(page)
			require.NoError(t, err)
			assert.Contains(t, string(text), "Do not quote these figures")
		})
	}
}

// git runs the command git in a folder, without the developer's own settings.
func git(t *testing.T, folder string, args ...string) string {
	t.Helper()
	command := exec.Command("git", args...)
	command.Dir = folder
	command.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	out, err := command.CombinedOutput()
	require.NoError(t, err, "git %s: %s", strings.Join(args, " "), out)
	return strings.TrimSpace(string(out))
}

// standing is the relation of a commit to HEAD.
type standing string

const (
	ancestor standing = "an ancestor of HEAD, or HEAD itself"
	stranger standing = "no ancestor of HEAD"
	beyond   standing = "perhaps before the first commit of a shallow clone"
)

func standingOf(folder, commit string) standing {
	is := func(args ...string) bool {
		command := exec.Command("git", args...)
		command.Dir = folder
		return command.Run() == nil
	}
	if is("merge-base", "--is-ancestor", commit, "HEAD") {
		return ancestor
	}
	command := exec.Command("git", "rev-parse", "--is-shallow-repository")
	command.Dir = folder
	if shallow, err := command.Output(); err == nil && strings.TrimSpace(string(shallow)) == "true" {
		return beyond
	}
	return stranger
}

func TestStanding_TellsAncestorsFromStrangers(t *testing.T) {
	origin := t.TempDir()
	git(t, origin, "init", "-q", "-b", "main")
	commit := func(what string) string {
		git(t, origin, "commit", "-q", "--allow-empty", "-m", what)
		return git(t, origin, "rev-parse", "HEAD")
	}
	first := commit("first")
	git(t, origin, "switch", "-q", "-c", "side")
	side := commit("side")
	git(t, origin, "switch", "-q", "main")
	last := commit("last")
	shallow := filepath.Join(t.TempDir(), "clone")
	git(t, origin, "clone", "-q", "--depth", "1", "file://"+origin, shallow)

	assert.Equal(t, ancestor, standingOf(origin, first))
	assert.Equal(t, ancestor, standingOf(origin, last))
	assert.Equal(t, stranger, standingOf(origin, side))
	assert.Equal(t, stranger, standingOf(origin, strings.Repeat("1", 40)))
	assert.Equal(t, ancestor, standingOf(shallow, last))
	assert.Equal(t, beyond, standingOf(shallow, first))
}

// inRepository skips the test if the sources are not in a git repository, for example in a copy without the .git folder.
func inRepository(t *testing.T) {
	t.Helper()
	if err := exec.Command("git", "rev-parse", "--git-dir").Run(); err != nil {
		t.Skip("NOT CHECKED: there is no git repository here, so it is unknown which results are committed")
	}
}

// committed returns the files of results that are committed.
func committed(t *testing.T) (files []string) {
	t.Helper()
	return strings.Fields(git(t, ".", "ls-files", "--", "../results"))
}

// The documents quote committed results. So each committed file of results must have no flaws, and the HTML page beside the file must show the same
// results.
func TestCommitted_ResultsMayBeQuoted(t *testing.T) {
	inRepository(t)
	for _, file := range committed(t) {
		if !strings.HasSuffix(file, ".json") {
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			results, err := Read(file)
			require.NoError(t, err)
			assert.Empty(t, results.Flaws(), "%s may not be quoted", file)

			page := filepath.Join(t.TempDir(), "page.html")
			require.NoError(t, results.WritePage(page))
			want, err := os.ReadFile(page)
			require.NoError(t, err)
			got, err := os.ReadFile(strings.TrimSuffix(file, ".json") + ".html")
			require.NoError(t, err)
			assert.True(t, string(want) == string(got), "the page is not of these results: go run . -page %s", strings.TrimPrefix(file, "../"))
		})
	}
}

func TestCommitted_ResultsAreOfAnAncestor(t *testing.T) {
	inRepository(t)
	for _, file := range committed(t) {
		if !strings.HasSuffix(file, ".json") {
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			results, err := Read(file)
			require.NoError(t, err)
			switch at := standingOf(".", results.Commit()); at {
			case beyond:
				t.Skipf("NOT CHECKED: this clone is shallow, and commit %s may be before its first one", results.Commit())
			default:
				assert.Equal(t, ancestor, at, "%s is of commit %s", file, results.Commit())
			}
		})
	}
}
