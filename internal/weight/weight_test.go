package weight_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	module     = "github.com/holdfast-go/holdfast"
	mostBytes  = 6_000_000 // how much larger the binary may be than one with go-redis alone, both stripped
	mostLinked = 30        // how many modules may be in the binary, the program's own included
)

const withClient = `package main

import (
	"context"

	"github.com/redis/go-redis/v9"
)

func main() {
	client := redis.NewClient(&redis.Options{})
	println(client.Ping(context.Background()).Err() == nil)
}
`

const withRuntime = `package main

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
)

func main() {
	client := redis.NewClient(&redis.Options{})
	println(client.Ping(context.Background()).Err() == nil)
	rt, err := holdfast.New(client, holdfast.Options{})
	if err != nil {
		panic(err)
	}
	println(rt.Lock("orders").Do(context.Background(), func(context.Context) error { return nil }) == nil)
}
`

// Holdfast adds a few megabytes to a user's binary, and links a bounded number of modules.
func TestWeight_OfAUsersBinary(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it builds two programs; .ci/run has a step for it")
	}
	user := newUser(t)
	alone, ours := user.build("alone", withClient), user.build("ours", withRuntime)

	more := size(t, ours) - size(t, alone)
	linked := user.linked(ours)
	t.Logf("%.1f MB instead of %.1f MB, %d modules instead of %d",
		float64(size(t, ours))/1e6, float64(size(t, alone))/1e6, len(linked), len(user.linked(alone)))
	assert.Contains(t, linked, module, "the program links what is measured")
	assert.Positive(t, more)
	assert.LessOrEqual(t, more, int64(mostBytes), "bytes more than with go-redis alone")
	assert.LessOrEqual(t, len(linked), mostLinked, "%q", linked)
}

const printsError = `package main

import (
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
)

func main() {
	_, err := holdfast.New(redis.NewClient(&redis.Options{}), holdfast.Options{})
	fmt.Print(err)
}
`

// On a 32-bit platform protoactor would panic, or an actor would never start. So New returns an error there.
func TestPlatform_OfLessThan64Bits(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it builds the module for another platform; .ci/run has a step for it")
	}
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("only an amd64 system runs programs for 386 as well")
	}
	user := newUser(t)
	user.env = []string{"GOARCH=386"}

	out, err := exec.CommandContext(t.Context(), user.build("narrow", printsError)).CombinedOutput()
	if errors.Is(err, syscall.ENOEXEC) {
		t.Skip("this system runs no programs for 386")
	}
	require.NoError(t, err, "%s", out)
	assert.Equal(t, "holdfast: new: linux/386 is not supported, because protoactor needs a 64-bit platform", string(out))
}

// user is a module that requires this module, and the same versions of the dependencies as this module does.
type user struct {
	t      *testing.T
	folder string
	env    []string // for the go command
}

func newUser(t *testing.T) *user {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	ours, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	require.NoError(t, err)

	// The user's go.mod names all modules that ours requires, so the go command looks nothing up. The modules are in its cache, because this test
	// was built with them.
	theirs := strings.Replace(string(ours), "module "+module+"\n", "module example.com/user\n", 1)
	require.NotEqual(t, string(ours), theirs)
	theirs += "\nrequire " + module + " v0.0.0\n\nreplace " + module + " => " + strconv.Quote(root) + "\n"
	u := &user{t: t, folder: t.TempDir()}
	u.write("go.mod", theirs)
	u.write("go.sum", string(sums))
	return u
}

func (u *user) write(file, text string) {
	u.t.Helper()
	path := filepath.Join(u.folder, file)
	require.NoError(u.t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(u.t, os.WriteFile(path, []byte(text), 0o600))
}

// build builds a stripped program and returns its path.
func (u *user) build(name, source string) string {
	u.t.Helper()
	u.write(filepath.Join(name, "main.go"), source)
	program := filepath.Join(u.folder, name+".exe")
	u.golang("build", "-ldflags", "-s -w", "-o", program, "./"+name)
	return program
}

// linked returns the modules in a program, its own included.
func (u *user) linked(program string) (modules []string) {
	u.t.Helper()
	for _, line := range regexp.MustCompile(`(?m)^\t(?:mod|dep)\t(\S+)`).FindAllStringSubmatch(u.golang("version", "-m", program), -1) {
		modules = append(modules, line[1])
	}
	return modules
}

// golang runs the go command in the user's module, without a network.
func (u *user) golang(args ...string) string {
	u.t.Helper()
	command := exec.CommandContext(u.t.Context(), "go", args...)
	command.Dir = u.folder
	command.Env = append(os.Environ(), "GOFLAGS=-mod=readonly", "GOPROXY=off", "GOWORK=off", "CGO_ENABLED=0")
	command.Env = append(command.Env, u.env...)
	out, err := command.CombinedOutput()
	require.NoError(u.t, err, "go %q\n%s", args, out)
	return string(out)
}

func size(t *testing.T, file string) int64 {
	t.Helper()
	info, err := os.Stat(file)
	require.NoError(t, err)
	return info.Size()
}
