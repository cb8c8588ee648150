//go:build unix

package main_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// place is a deployment of Redis (one or more servers) that has locks, with the URLs by which the command line connects to it.
type place struct {
	t        *testing.T
	url      string // URL for a user who locks
	viewer   string // URL for a user who looks at locks
	operator string // URL for a user who frees locks
	prefix   string // prefix of the locks' names
}

// use runs every command that needs a server, except top.
func (p place) use() {
	t, name := p.t, p.prefix+"orders"
	file, command := script(t, forever)
	holder := holdfast(t, p.url, append([]string{"exec", name, "--kind", "fenced", "--lease", "6s", "--grace", "300ms", "--"}, command...)...)
	pidIn(t, file)
	waiter := holdfast(t, p.url, "exec", name, "--kind", "fenced", "--", "sh", "-c", `echo "token $HOLDFAST_TOKEN"`)
	locktest.Await(t, "the waiter", func() bool {
		return strings.Contains(p.succeeds(p.viewer, "ls", "--contended"), name+"\tfenced lock\t")
	})
	assert.Contains(t, p.succeeds(p.viewer, "ls", p.prefix+"*"), name+"\tfenced lock\t")
	shown := p.succeeds(p.viewer, "show", name, "--for", "0s")
	assert.Contains(t, shown, "sh@", "the holder's process")
	assert.Contains(t, shown, "waiting   1")
	p.page(p.viewer, name)
	p.succeeds(p.url, "check", "--kinds", "fenced", "--prefix", p.prefix)
	p.succeeds(p.operator, "free", "--yes", name)
	assert.Equal(t, 76, holder.code(), "%s", holder.err.String())
	assert.Equal(t, 0, waiter.code(), "%s", waiter.err.String())
	assert.Regexp(t, `^token \d+\n$`, waiter.out.String())
	assert.Empty(t, waiter.err.String())
	_, errs, code := ends(t, p.url, "exec", "--permits", "2", p.prefix+"permits", "--", "sh", "-c", "exit 4")
	assert.Equal(t, 4, code, errs)
	_, errs, code = ends(t, p.url, "lead", p.prefix+"election", "--once", "--", "sh", "-c", "exit 3")
	assert.Equal(t, 3, code, errs)
	assert.NotContains(t, errs, "NOPERM")
}

func (p place) succeeds(url string, args ...string) string {
	p.t.Helper()
	out, errs, code := ends(p.t, url, args...)
	assert.Equal(p.t, 0, code, "%q: %s%s", args, out, errs)
	assert.Empty(p.t, errs, "%q", args)
	return out
}

// page fetches the pages that show a lock, as a browser does.
func (p place) page(url, name string) {
	t := p.t
	server, address := servePage(t, url)
	for _, path := range []string{"", "/lock?name=" + name, "/processes"} {
		status, body := fetch(t, address+path)
		assert.Equal(t, http.StatusOK, status, path)
		if path != "/processes" {
			assert.Contains(t, body, name, path)
		}
		assert.Contains(t, body, "sh@", path)
		assert.NotContains(t, body, "NOPERM", path)
	}
	require.NoError(t, server.cmd.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, 0, server.code())
}

// servePage starts "holdfast page", and returns its address.
func servePage(t *testing.T, url string, args ...string) (server *invocation, address string) {
	t.Helper()
	read, write, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = read.Close() })
	server = holdfastWith(t, url, func(c *exec.Cmd) { c.Stderr = write }, append([]string{"page", "--listen", "localhost:0"}, args...)...)
	require.NoError(t, write.Close())
	line, err := bufio.NewReader(read).ReadString('\n')
	require.NoError(t, err)
	address = regexp.MustCompile(`http://\S+`).FindString(line)
	require.NotEmpty(t, address, line)
	return server, address
}

func fetch(t *testing.T, url string) (status int, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), locktest.Patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	require.NoError(t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(text)
}

func everywhere(t *testing.T, url string) place {
	t.Helper()
	return place{t: t, url: url, viewer: url, operator: url, prefix: redistest.Name(t) + ":"}
}

func TestPlaces_TLS(t *testing.T) {
	t.Parallel()
	authority := redistest.NewAuthority(t)
	server := redistest.StartTLS(t, authority, time.Hour)
	ca, cert, key := authority.Files()
	url := "rediss://" + server.Addr() + "?ca=" + ca + "&cert=" + cert + "&key=" + key
	everywhere(t, url).use()
	_, errs, code := ends(t, "rediss://"+server.Addr(), "exec", "x", "--", "true")
	assert.Equal(t, 69, code)
	assert.Contains(t, errs, "certificate", "the authority is not trusted")
	for _, args := range [][]string{{"exec", "x", "--", "true"}, {"show", "x"}, {"ls"}} {
		_, errs, code = ends(t, "redis://"+server.Addr(), args...)
		assert.Equal(t, 69, code, "%q", args)
		assert.Contains(t, errs, "a server with TLS needs rediss://", "%q", args)
	}
}

func TestPlaces_TLSCluster(t *testing.T) {
	t.Parallel()
	authority := redistest.NewAuthority(t)
	cluster := redistest.StartTLSCluster(t, authority, 3, 15*time.Second)
	ca, cert, key := authority.Files()
	everywhere(t, "rediss://"+strings.Join(cluster.Addrs(), ",")+"?ca="+ca+"&cert="+cert+"&key="+key).use()
}

func TestPlaces_Cluster(t *testing.T) {
	t.Parallel()
	addrs := redistest.SharedCluster(t).Addrs()
	everywhere(t, "redis://"+strings.Join(addrs, ",")).use()
	everywhere(t, "redis://"+addrs[0]+"?cluster=true").use()
}

// If the key of a lock is on another server of the cluster than the one in the URL, the error says that the URL needs ?cluster=true.
func TestPlaces_OneServerOfACluster(t *testing.T) {
	t.Parallel()
	cluster, name := redistest.SharedCluster(t), redistest.Name(t)
	owner := cluster.Owner(name).Addr()
	other := cluster.Masters[slices.IndexFunc(cluster.Masters, func(s *redistest.Server) bool { return s.Addr() != owner })]
	for _, args := range [][]string{{"exec", "--lease", "3s", name, "--", "true"}, {"lead", "--lease", "3s", name, "--", "true"}, {"show", name}, {"free", "--yes", name}} {
		_, errs, code := ends(t, other.URL(), args...)
		assert.Equal(t, 69, code, "%q", args)
		assert.Regexp(t, `MOVED .* \(for a cluster, the URL needs \?cluster=true\)\n$`, errs, "%q", args)
	}
}

func TestPlaces_Sentinel(t *testing.T) {
	t.Parallel()
	var addrs []string
	for _, sentinel := range redistest.SharedGuarded(t).Sentinels {
		addrs = append(addrs, sentinel.Addr())
	}
	everywhere(t, "redis://"+strings.Join(addrs, ",")+"?master="+redistest.GuardedName).use()
	_, errs, code := ends(t, "redis://"+addrs[0]+"?master=nobody", "exec", "x", "--", "true")
	assert.Equal(t, 69, code, errs)
}

// grant creates a Redis user that has exactly the rights that acl prints.
func grant(t *testing.T, client redis.Cmdable, user string, args ...string) {
	t.Helper()
	out, errs, code := ends(t, "", append([]string{"acl", "--user", user}, args...)...)
	require.Equal(t, 0, code, errs)
	words := strings.Fields(strings.Replace(out, ">PASSWORD", ">secret", 1))
	command := []any{words[0], words[1], words[2], "reset"}
	for _, word := range words[3:] {
		command = append(command, word)
	}
	require.NoError(t, client.(interface {
		Do(ctx context.Context, args ...any) *redis.Cmd
	}).Do(t.Context(), command...).Err())
}

// guests returns a place whose users have exactly the rights that acl prints.
func guests(t *testing.T, addrs string, nodes []*redistest.Server, more ...string) place {
	t.Helper()
	p := place{t: t, prefix: "app:"}
	for user, args := range map[string][]string{
		"app":      {"--kinds", "fenced,permit-semaphore", "--process", "--election"},
		"viewer":   {"--look"},
		"operator": {"--free"},
	} {
		for _, node := range nodes {
			grant(t, node.Client(t), user, append(append(args, more...), "--prefix", p.prefix)...)
		}
	}
	url := func(user string) string { return "redis://" + user + ":secret@" + addrs }
	p.url, p.viewer, p.operator = url("app"), url("viewer"), url("operator")
	return p
}

// acl prints rights for certain commands. A user who has these rights can use those commands, but no others.
func TestPlaces_ACL(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	p := guests(t, server.Addr(), []*redistest.Server{server})
	p.use()
	_, errs, code := ends(t, p.url, "exec", "other", "--", "true")
	assert.Equal(t, 69, code)
	assert.Contains(t, errs, "NOPERM")
	_, errs, code = ends(t, p.viewer, "exec", p.prefix+"orders", "--", "true")
	assert.Equal(t, 69, code)
	assert.Contains(t, errs, "NOPERM")
	require.NoError(t, server.Client(t).HSet(t.Context(), p.prefix+"stays", locktest.Stranger(1), 1).Err())
	_, errs, code = ends(t, p.viewer, "free", "--yes", p.prefix+"stays")
	assert.Equal(t, 69, code, "a user who may only look cannot free a lock")
	assert.Contains(t, errs, "NOPERM")
}

func TestPlaces_ACLCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0, 15*time.Second)
	guests(t, strings.Join(cluster.Addrs(), ","), cluster.Masters, "--cluster").use()
}
