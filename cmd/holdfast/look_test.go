//go:build unix

package main_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// hostile contains names that others may have written.
var hostile = []string{
	"\x1b]0;title\x07\x1b[31mred", "two\nlines\tand\ttabs", "\u202eright-to-left", "\u05d0\u05d1\u05d2", "\xff\xfe invalid", "\u009bC1",
	"<b>&amp;</b>", `"quoted"`, "\u0301combining", strings.Repeat("x", 512), " spaces ", "\u2028line", "\U000e0041tag",
}

// printable fails the test if a line has a character that a terminal may interpret as something other than text.
func printable(t *testing.T, line string) {
	t.Helper()
	assert.True(t, utf8.ValidString(line))
	for _, r := range line {
		assert.True(t, unicode.IsPrint(r) || r == '\t' || r == '\u200e', "%q in %q", r, line)
	}
}

func TestLs_ShowsHostileNamesAsData(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	for _, name := range hostile {
		require.NoError(t, client.HSet(t.Context(), name, locktest.Stranger(1), 1).Err())
	}
	out, errs, code := ends(t, server.URL(), "ls")
	require.Equal(t, 0, code, errs)
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	require.Len(t, lines, 1+len(hostile))
	for _, line := range lines {
		printable(t, line)
		assert.Len(t, strings.Split(line, "\t"), 6, "%q", line)
	}
	out, _, code = ends(t, server.URL(), "ls", "--json")
	require.Equal(t, 0, code)
	var names []string
	for line := range strings.Lines(out) {
		printable(t, strings.TrimSuffix(line, "\n"))
		var lock struct {
			Name  string `json:"name"`
			Bytes string `json:"name_base64"`
			Kind  string `json:"kind"`
		}
		require.NoError(t, json.Unmarshal([]byte(line), &lock))
		if lock.Bytes != "" {
			name, err := base64.StdEncoding.DecodeString(lock.Bytes)
			require.NoError(t, err)
			lock.Name = string(name)
		}
		assert.Equal(t, "lock", lock.Kind)
		names = append(names, lock.Name)
	}
	assert.ElementsMatch(t, hostile, names)
	for _, name := range hostile {
		out, _, code := ends(t, server.URL(), "show", "--for", "0s", "--", name)
		assert.Equal(t, 0, code)
		for line := range strings.Lines(out) {
			printable(t, strings.TrimSuffix(line, "\n"))
		}
	}
}

func TestLs_NoTitlesWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	out, errs, code := ends(t, "redis://127.0.0.1:1", "ls")
	assert.Equal(t, 69, code)
	assert.Contains(t, errs, "connection refused")
	assert.Empty(t, out)
	out, _, code = ends(t, redistest.Start(t).URL(), "ls")
	assert.Equal(t, 0, code)
	assert.Equal(t, "NAME\tKIND\tHOLDER\tPROCESS\tTTL\tWAITING\n", out, "an empty list has titles")
}

// If a server accepts connections but does not answer, a command must not wait for long, and its error says what is wrong.
func TestShow_SilentServer(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { assert.NoError(t, silent.Close()) }()
	_, errs, code := ends(t, "redis://"+silent.Addr().String()+"?read_timeout=50ms", "show", "orders")
	assert.Equal(t, 69, code)
	assert.Contains(t, errs, "Redis accepts connections, but does not answer")
}

func TestShow_Renewed(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	name := redistest.Name(t)
	file, command := script(t, forever)
	holdfast(t, server.URL(), append([]string{"exec", name, "--lease", "1s", "--"}, command...)...)
	pidIn(t, file)
	out, _, code := ends(t, server.URL(), "show", name, "--json", "--for", "30s")
	require.Equal(t, 0, code)
	var lock struct {
		Renewed bool
		TTL     int64 `json:"ttl_ms"`
		Holders []struct{ Process struct{ Name string } }
	}
	require.NoError(t, json.Unmarshal([]byte(out), &lock))
	assert.True(t, lock.Renewed)
	assert.Positive(t, lock.TTL)
	require.Len(t, lock.Holders, 1)
	assert.Contains(t, lock.Holders[0].Process.Name, "sh@")

	other := redistest.Name(t)
	require.NoError(t, server.Client(t).HSet(t.Context(), other, locktest.Stranger(1), 1).Err())
	require.NoError(t, server.Client(t).PExpire(t.Context(), other, 1e12).Err())
	out, _, code = ends(t, server.URL(), "show", other, "--for", "200ms")
	assert.Equal(t, 0, code)
	assert.Regexp(t, `renewed   not within \S+s; a lease of 30s is renewed every 10s: try --for 12s\n`, out)
}

func TestFree(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	client, name := server.Client(t), redistest.Name(t)
	_, _, code := ends(t, server.URL(), "free", "--yes", name)
	assert.Equal(t, 1, code, "nobody holds it")
	require.NoError(t, client.HSet(t.Context(), name, locktest.Stranger(1), 1).Err())
	_, errs, code := ends(t, server.URL(), "free", name)
	assert.Equal(t, 64, code)
	assert.Contains(t, errs, "--yes")
	assert.EqualValues(t, 1, client.Exists(t.Context(), name).Val())
	out, _, code := ends(t, server.URL(), "free", name, "--yes", "--json")
	assert.Equal(t, 0, code)
	assert.JSONEq(t, `{"name":"`+name+`","freed":true}`, out)
	assert.Zero(t, client.Exists(t.Context(), name).Val())
}

// A user with the rights that acl prints for a kind passes the check of that kind, but not the check of all kinds.
func TestACL_IsEnoughForCheck(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, kind := range []string{"lock", "fair", "fenced", "spin", "read", "write", "permit-semaphore", "semaphore", "latch"} {
		url := userBy(t, server, "acl", "--kinds", kind)
		out, errs, code := ends(t, url, "check", "--kinds", kind)
		assert.Equal(t, 0, code, "%s: %s%s", kind, out, errs)
		if kind == "latch" {
			out, _, code = ends(t, url, "check", "--json")
			assert.Equal(t, 1, code)
			assert.Contains(t, out, `"remedy":"ACL SETUSER app`)
			assert.NotContains(t, out, "secret")
		}
	}
	for _, prefix := range []string{"app:", "{app}:", `a\b[c]?*:`} {
		out, errs, code := ends(t, userBy(t, server, "acl", "--prefix", prefix), "check", "--prefix", prefix)
		assert.Equal(t, 0, code, "%s: %s%s", prefix, out, errs)
	}
}

// An empty list of kinds, as from a variable that is not set, must not mean all kinds.
func TestACL_RefusesWhatIsNoRule(t *testing.T) {
	t.Parallel()
	for _, c := range [][]string{
		{"--user", ""}, {"--user", "a b"}, {"--user", "a\x1b[31m"}, {"--prefix", "a\"b"}, {"--prefix", "a\nb"}, {"--prefix", "a\xff"},
		{"--kinds", ""}, {"--kinds", ", "},
	} {
		out, errs, code := ends(t, "", "acl", c[0], c[1])
		assert.Equal(t, 64, code, "%q", c)
		assert.Empty(t, out, "%q", c)
		assert.Contains(t, errs, c[0][1:], "%q", c)
		for line := range strings.Lines(errs) {
			printable(t, strings.TrimSuffix(line, "\n"))
		}
	}
}

// A prefix that no name can have is a wrong command line, not a problem of the server.
func TestCheck_PrefixOfNoName(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	for prefix, why := range map[string]string{"a\nb": "control character", "{a": "braces", strings.Repeat("x", 512): "513 bytes"} {
		_, errs, code := ends(t, server.URL(), "check", "--prefix", prefix)
		assert.Equal(t, 64, code, "%q", prefix)
		assert.Contains(t, errs, "--prefix", "%q", prefix)
		assert.Contains(t, errs, why, "%q", prefix)
	}
}

// userBy gives the user app the rights that holdfast prints, and returns the URL for the user.
func userBy(t *testing.T, server *redistest.Server, args ...string) (url string) {
	t.Helper()
	out, _, code := ends(t, server.URL(), args...)
	require.Equal(t, 0, code)
	rule := strings.Fields(strings.Replace(out, ">PASSWORD", ">secret", 1))
	command := []any{rule[0], rule[1], rule[2], "reset"}
	for _, word := range rule[3:] {
		command = append(command, word)
	}
	require.NoError(t, server.Client(t).Do(t.Context(), command...).Err())
	return "redis://app:secret@" + server.Addr()
}

// The rules that acl prints are those of SECURITY.md.
func TestACL_IsThatOfSecurity(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../../SECURITY.md")
	require.NoError(t, err)
	block := regexp.MustCompile("(?s)ACL SETUSER (?:app|viewer) on >PASSWORD (.*?)```").FindAllStringSubmatch(string(document), -1)
	require.Len(t, block, 2)
	for i, args := range [][]string{{"acl", "--prefix", "app:"}, {"acl", "--look", "--prefix", "app:"}} {
		out, _, code := ends(t, "", args...)
		require.Equal(t, 0, code)
		_, rules, _ := strings.Cut(out, ">PASSWORD ")
		assert.ElementsMatch(t, strings.Fields(block[i][1]), strings.Fields(rules), "%q", args)
	}
	for flag, sentence := range map[string]string{
		"--election": "An election needs the rights of a fenced lock and, in addition, `([^`]*)`",
		"--linger":   "`Options.Linger` needs, in addition, `([^`]*)`", "--process": "`Options.Process` needs, in addition, `([^`]*)`",
		"--migrating": "`Options.Migrating` needs `([^`]*)`", "--ack-replicas": "`Options.AckReplicas` needs `([^`]*)`",
	} {
		out, _, code := ends(t, "", "acl", "--prefix", "app:", flag)
		require.Equal(t, 0, code)
		documented := regexp.MustCompile(sentence).FindSubmatch(document)
		require.NotNil(t, documented, flag)
		assert.Subset(t, strings.Fields(out), strings.Fields(string(documented[1])), flag)
	}
}

func TestLead_RunsAgainInEachTerm(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	client, name := server.Client(t), redistest.Name(t)
	read, write, err := os.Pipe()
	require.NoError(t, err)
	leader := holdfastWith(t, server.URL(), func(c *exec.Cmd) { c.Stdout = write },
		"lead", name, "--lease", "1s", "--grace", "200ms", "--value", "here", "--", "sh", "-c", `echo $HOLDFAST_TOKEN; exec sleep 1000`)
	require.NoError(t, write.Close())
	tokens := bufio.NewReader(read)
	first, err := tokens.ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "here", client.HGet(t.Context(), "holdfast_leader:{"+name+"}", "value").Val(), "as the help says")
	require.NoError(t, client.Del(t.Context(), name).Err())
	second, err := tokens.ReadString('\n')
	require.NoError(t, err)
	assert.Less(t, first, second)
	require.NoError(t, leader.cmd.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, 143, leader.code())
	_, err = tokens.ReadString('\n')
	assert.ErrorIs(t, err, io.EOF)
	assert.Zero(t, client.Exists(t.Context(), name).Val())
	_, errs, code := ends(t, server.URL(), "lead", name, "--", "sh", "-c", "exit 5")
	assert.Equal(t, 5, code, errs)
}

// As with exec, the exit code is 76 if the command has succeeded, but the leadership was lost before the command ended.
func TestLead_LostBeforeTheEnd(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	client, name := server.Client(t), redistest.Name(t)
	file, command := script(t, `while ! test -e "$0.go"; do sleep 0.01; done`)
	leader := holdfast(t, server.URL(), append([]string{"lead", "--once", name, "--"}, command...)...)
	pidIn(t, file)
	require.NoError(t, client.Del(t.Context(), name).Err())
	require.NoError(t, os.WriteFile(file+".go", nil, 0o600))
	assert.Equal(t, 76, leader.code())
	assert.Contains(t, leader.err.String(), "lost before the command ended")
}

// With --once, lead ends when the leadership is lost: there is no further term.
func TestLead_OnceEndsWithALoss(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	client, name := server.Client(t), redistest.Name(t)
	file, command := script(t, `exec sleep 1000`)
	leader := holdfast(t, server.URL(), append([]string{"lead", "--once", "--lease", "1s", "--grace", "200ms", name, "--"}, command...)...)
	pidIn(t, file)
	require.NoError(t, client.Del(t.Context(), name).Err())
	assert.Equal(t, 76, leader.code())
}

// A prefix may contain the word NAME, which stands for a lock's name in the rules of package cli (see rights.add).
func TestACL_PrefixWithTheWordNAME(t *testing.T) {
	t.Parallel()
	args := []string{"acl", "--election", "--linger", "--process", "--free"}
	plain, _, code := ends(t, "", append(args, "--prefix", "app:")...)
	require.Equal(t, 0, code)
	odd, _, code := ends(t, "", append(args, "--prefix", "X_NAME:")...)
	require.Equal(t, 0, code)
	assert.Equal(t, strings.ReplaceAll(plain, "app:", "X_NAME:"), odd)
}

// If a signal interrupts a command while Redis is silent, the command prints nothing: no error, and no finding about Redis.
func TestCommands_Interrupted(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"ls"}, {"show", "orders"}, {"free", "--yes", "orders"}, {"check"}, {"check", "--json"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			silent, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			defer func() { _ = silent.Close() }()
			command := holdfast(t, "redis://"+silent.Addr().String(), args...)
			connection, err := silent.Accept()
			require.NoError(t, err)
			defer func() { _ = connection.Close() }()
			require.NoError(t, command.cmd.Process.Signal(syscall.SIGINT))
			assert.Equal(t, 128+int(syscall.SIGINT), command.code())
			assert.Empty(t, command.out.String())
			assert.Empty(t, command.err.String())
		})
	}
}

// On every address, the page answers only requests whose Host is an IP address or one of the page's own names. This protects the page from DNS
// rebinding: a foreign site cannot read the page by making the site's name resolve to the page's address.
func TestPage_AnswersUnderItsNamesOnly(t *testing.T) {
	t.Parallel()
	for _, listen := range []string{"localhost:0", ":0"} {
		page, url := servePage(t, redistest.Shared(t).URL(), "--listen", listen, "--host", "Ops.example,10.0.0.1", "--allow-free")
		for host, want := range map[string]int{
			"": http.StatusOK, "localhost": http.StatusOK, "localhost:7": http.StatusOK, "192.0.2.1": http.StatusOK, "[::1]:7": http.StatusOK,
			"ops.example": http.StatusOK, "OPS.example:7": http.StatusOK,
			"evil.example": http.StatusMisdirectedRequest, "127.0.0.1.evil.example": http.StatusMisdirectedRequest,
		} {
			assert.Equal(t, want, statusOf(t, url, host), "%s %s", listen, host)
		}
		require.NoError(t, page.cmd.Process.Signal(syscall.SIGINT))
		assert.Equal(t, 0, page.code())
	}
}

func statusOf(t *testing.T, url, host string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	request.Host = host
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode
}

// With --json, the messages of a command are JSON as well, and so are the warnings of its runtime.
func TestJSON_Messages(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	name := redistest.Name(t)
	require.NoError(t, server.Client(t).Set(t.Context(), name, "of another program", 0).Err())
	for _, args := range [][]string{
		{"--json", "exec", name, "--", "true"}, {"show", "--json", name}, {"ls", "--json", "--redis", "redis://localhost:1"},
	} {
		out, errs, code := ends(t, server.URL(), args...)
		assert.NotZero(t, code, "%q", args)
		assert.Empty(t, out, "%q", args)
		for line := range strings.Lines(errs) {
			var message struct {
				Message string `json:"message"`
			}
			require.NoError(t, json.Unmarshal([]byte(line), &message), "%q: %q", args, line)
			assert.NotEmpty(t, message.Message, "%q", args)
		}
		assert.NotEmpty(t, errs, "%q", args)
	}
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish"} {
		out, _, code := ends(t, "", "completion", shell)
		assert.Equal(t, 0, code)
		assert.Contains(t, out, "at-least")
		path, err := exec.LookPath(shell)
		if err != nil {
			continue // without the shell, its syntax cannot be checked
		}
		check := exec.Command(path, "-n")
		check.Stdin = strings.NewReader(out)
		output, err := check.CombinedOutput()
		assert.NoError(t, err, "%s: %s", shell, output)
	}
}

// completionOf returns the path of a shell, and the completion for it.
func completionOf(t *testing.T, shell string) (path, completion string) {
	t.Helper()
	path, err := exec.LookPath(shell)
	if err != nil {
		t.Skip("there is no " + shell)
	}
	completion, _, _ = ends(t, "", "completion", shell)
	return path, completion
}

// Each key of the map is a command line as bash splits it into words. The key has a space between two words. A colon, an equals sign and an @ are
// words of their own.
func TestCompletion_Bash(t *testing.T) {
	t.Parallel()
	path, completion := completionOf(t, "bash")
	for words, want := range map[string]string{
		"ls --c":                          "--contended\n",
		"-r host ls --c":                  "--contended\n",
		"-r redis : //host : 6379 ls --c": "--contended\n",
		"--redis = redis : //u : p @ h : 1 ls --c": "--contended\n",
		"-r redis : //host le":                     "lead\n",
		"ls --redis redis : //host --c":            "--contended\n",
		"exec --kind fe":                           "fenced\n",
		"exec --kind = fe":                         "fenced\n",
		"exec a : b --at-m":                        "--at-most\n",
	} {
		script := completion + `
COMP_WORDS=(holdfast "$@")
COMP_CWORD=$#
_holdfast
printf '%s\n' "${COMPREPLY[@]}"`
		out, err := exec.Command(path, append([]string{"-c", script, "bash"}, strings.Fields(words)...)...).CombinedOutput()
		assert.NoError(t, err)
		assert.Equal(t, want, string(out), words)
	}
}

func TestCompletion_Fish(t *testing.T) {
	t.Parallel()
	path, completion := completionOf(t, "fish")
	for line, want := range map[string]string{
		"ls --c":                      "--contended",
		"-r redis://host:6379 le":     "lead",
		"-r redis://host:6379 ls --c": "--contended",
		"help le":                     "lead",
		"exec --kind fe":              "fenced",
		"exec n -- ech":               "echo",
		"exec n -- ls /etc/host":      "/etc/hosts",
	} {
		out, err := exec.Command(path, "-N", "-c", completion+"complete -C 'holdfast "+line+"'").CombinedOutput()
		assert.NoError(t, err)
		assert.Contains(t, string(out), want, line)
	}
}

// Without a terminal, top requires --json. With --json, it looks at the locks at each interval and writes one line of JSON, until a signal ends it.
func TestTop_WithoutATerminal(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	_, errs, code := ends(t, server.URL(), "top")
	assert.Equal(t, 64, code)
	assert.Contains(t, errs, "it needs a terminal")
	_, errs, code = ends(t, server.URL(), "top", "--json", "--interval", "10ms")
	assert.Equal(t, 64, code)
	assert.Contains(t, errs, "--interval")

	require.NoError(t, server.Client(t).HSet(t.Context(), "orders", locktest.Stranger(1), 1).Err())
	file := filepath.Join(t.TempDir(), "looks")
	out, err := os.Create(file)
	require.NoError(t, err)
	defer func() { assert.NoError(t, out.Close()) }()
	top := holdfastWith(t, server.URL(), func(c *exec.Cmd) { c.Stdout = out }, "top", "--json")
	var lines []string
	locktest.Await(t, "two looks", func() bool {
		text, err := os.ReadFile(file)
		lines = strings.Split(string(text), "\n")
		return assert.NoError(t, err) && len(lines) > 2
	})
	require.NoError(t, top.cmd.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, 143, top.code())
	var look struct {
		At    time.Time
		Locks []struct{ Name, Kind string }
	}
	require.NoError(t, json.Unmarshal([]byte(lines[1]), &look))
	assert.WithinDuration(t, time.Now(), look.At, time.Minute)
	require.Len(t, look.Locks, 1)
	assert.Equal(t, "orders", look.Locks[0].Name)
	assert.Equal(t, "lock", look.Locks[0].Kind)
}
