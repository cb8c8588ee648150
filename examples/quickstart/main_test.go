package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/embedded"
)

// printed lists the lines that a run must print, in this order. Other lines may come between them.
var printed = []string{
	"-      a Redis inside this process",
	"1/6    two runtimes want one lock",
	"A      acquired",
	"B      tried once and was refused: held by",
	"B      waited 150ms and gave up",
	"A      released",
	"A+B    100 goroutines held it in turn",
	"2/6    a watchdog renews a lock",
	"A      acquired",
	"B      sees that A holds the lock",
	"B      sees that A holds the lock",
	"B      sees that A holds the lock",
	"A      released after 2.5 leases; B sees that the lock is free",
	"3/6    a release wakes the waiter",
	"A      acquired",
	"B      has the lock",
	"A+B    21 hand-overs between A and B",
	"4/6    an owner acquires its lock again",
	"A      acquired",
	"A      another owner in the same runtime was refused",
	"A      released once",
	"B      sees that A holds the lock",
	"A      released again; B sees that the lock is free",
	"5/6    a holder crashes, and its lock becomes free",
	"C      acquired",
	"B      waits for the lock",
	"C      is cut off",
	"C      learns before anyone else can acquire the lock",
	"B      has the lock",
	"6/6    the key of a held lock is deleted",
	"A      acquired",
	"redis  DEL",
	"A      learns of it",
	"A      gets the same error from a late Release",
	"-      A and B are closed",
}

var layout = regexp.MustCompile(`^ *(\d+\.\d{3})s  (\S+) *  (\S.*)$`)

func TestQuickstart_PrintsEverySceneInOrder(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer

	code := run(t.Context(), nil, &stdout, &stderr)

	require.Equal(t, exitOK, code, "stdout:\n%s\nstderr:\n%s", &stdout, &stderr)
	assert.Empty(t, stderr.String())
	rest, last := printed, 0.0
	for line := range strings.Lines(stdout.String()) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" {
			continue
		}
		parts := layout.FindStringSubmatch(line)
		require.NotNil(t, parts, "not a line of the timeline: %q", line)
		elapsed, err := strconv.ParseFloat(parts[1], 64)
		require.NoError(t, err)
		assert.GreaterOrEqual(t, elapsed, last, "times increase: %q", line)
		last = elapsed
		if len(rest) > 0 && strings.Contains(line, "s  "+rest[0]) {
			rest = rest[1:]
		}
	}
	assert.Empty(t, rest, "lines that were not printed, or not in this order, of:\n%s", &stdout)
	assert.NotContains(t, stdout.String(), "\x1b", "no color codes unless the output is a terminal")
}

func TestQuickstart_RunsOnAServerAndLeavesNoKey(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	var stdout, stderr bytes.Buffer

	code := run(t.Context(), []string{"-redis", "redis://" + server.Addr()}, &stdout, &stderr)

	require.Equal(t, exitOK, code, "stdout:\n%s\nstderr:\n%s", &stdout, &stderr)
	keys, err := server.Client().DBSize(t.Context()).Result()
	require.NoError(t, err)
	assert.Zero(t, keys)
}

func TestQuickstart_RefusesWhatItCannotUse(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args []string
		code int
		says string // on stderr
	}{
		"help":             {[]string{"-h"}, exitOK, "-redis URL"},
		"unknown flag":     {[]string{"-rediss", "x"}, exitUsage, "-rediss"},
		"argument":         {[]string{"redis://localhost"}, exitUsage, `unexpected argument "redis://localhost"`},
		"not a URL":        {[]string{"-redis", "redis://u:secret@host:port"}, exitUsage, "quickstart: -redis: "},
		"slash in secret":  {[]string{"-redis", "redis://u:secret/2@host"}, exitUsage, "percent-encoded"},
		"= and / in it":    {[]string{"-redis", "redis://:9/secret=@host"}, exitUsage, "percent-encoded"},
		"? in it":          {[]string{"-redis", "redis://u:9?db=secret@host"}, exitUsage, "percent-encoded"},
		"# in it":          {[]string{"-redis", "redis://u:9#secret@host"}, exitUsage, "percent-encoded"},
		"wrong database":   {[]string{"-redis", "redis://u:secret@host/x"}, exitUsage, "invalid database number"},
		"not a Redis URL":  {[]string{"-redis", "http://u:secret@host"}, exitUsage, "quickstart: -redis: "},
		"nobody answers":   {[]string{"-redis", "redis://u:secret@" + deadAddress(t)}, exitFailed, "quickstart: reach Redis at 127.0.0.1:"},
		"no such password": {[]string{"-redis", "redis://u:secret@" + startRedis(t).Addr()}, exitFailed, "quickstart: reach Redis at 127.0.0.1:"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer

			code := run(t.Context(), test.args, &stdout, &stderr)

			assert.Equal(t, test.code, code)
			assert.Contains(t, stderr.String(), test.says)
			assert.NotContains(t, stderr.String(), "secret")
			assert.Empty(t, stdout.String())
		})
	}
}

func TestQuickstart_FailsWhenASceneDoes(t *testing.T) {
	t.Parallel()
	var stdout bytes.Buffer
	failed := errors.New("the scene failed")
	var after bool

	err := play(t.Context(), "", newTimeline(&stdout), []scene{
		{"fails", "x", func(context.Context, *stage, string) error { return failed }},
		{"is never played", "x", func(context.Context, *stage, string) error { after = true; return nil }},
	})

	require.ErrorIs(t, err, failed)
	assert.ErrorContains(t, err, "fails: ")
	assert.False(t, after)
}

func TestQuickstart_EndsWhenInterrupted(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	var stdout bytes.Buffer

	err := play(ctx, "", newTimeline(&stdout), []scene{
		{"waits", "orders", func(ctx context.Context, s *stage, name string) error {
			if _, err := s.a.Lock(name).Acquire(ctx); err != nil {
				return err
			}
			interrupt()
			_, err := s.b.Lock(name).Acquire(ctx)
			return err
		}},
	})

	require.ErrorIs(t, err, context.Canceled)
	assert.Contains(t, stdout.String(), "none of their keys is left", "what A held is released all the same")
}

func startRedis(t *testing.T) *embedded.Server {
	t.Helper()
	server, err := embedded.Start()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, server.Close()) })
	return server
}

// deadAddress returns an address where nobody listens.
func deadAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return listener.Addr().String()
}
