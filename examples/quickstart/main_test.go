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

// told lists the lines that a run must print, in this order. Other lines may come between them.
var told = []string{
	"-      Redis inside this process",
	"1/6    two runtimes want one lock",
	"A      acquired",
	"B      tried once and was refused: held by",
	"B      waited 150ms and gave up",
	"A      released",
	"A+B    100 goroutines held it in turn",
	"2/6    the watchdog keeps a hold alive past its lease",
	"A      acquired",
	"B      sees A holding it",
	"B      sees A holding it",
	"B      sees A holding it",
	"A      released after 2.5 leases, B sees it free",
	"3/6    a release hands the lock over",
	"A      acquired",
	"B      has it",
	"A+B    21 hand-overs to and fro",
	"4/6    an owner enters again",
	"A      acquired",
	"A      another owner in the same runtime was refused",
	"A      released once",
	"B      sees A holding it",
	"A      released again, B sees it free",
	"5/6    a holder crashes, its lock comes free",
	"C      acquired",
	"B      waits for it",
	"C      is cut off",
	"C      is told before anybody else",
	"B      has it",
	"6/6    a lock is deleted under its holder",
	"A      acquired",
	"redis  DEL",
	"A      is told",
	"A      a late Release says the same",
	"-      A and B are closed",
}

var layout = regexp.MustCompile(`^ *(\d+\.\d{3})s  (\S+) *  (\S.*)$`)

func TestQuickstart_TellsEverySceneInOrder(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer

	code := run(t.Context(), nil, &stdout, &stderr)

	require.Equal(t, exitOK, code, "stdout:\n%s\nstderr:\n%s", &stdout, &stderr)
	assert.Empty(t, stderr.String())
	rest, last := told, 0.0
	for line := range strings.Lines(stdout.String()) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" {
			continue
		}
		parts := layout.FindStringSubmatch(line)
		require.NotNil(t, parts, "not a line of the timeline: %q", line)
		elapsed, err := strconv.ParseFloat(parts[1], 64)
		require.NoError(t, err)
		assert.GreaterOrEqual(t, elapsed, last, "time goes on: %q", line)
		last = elapsed
		if len(rest) > 0 && strings.Contains(line, "s  "+rest[0]) {
			rest = rest[1:]
		}
	}
	assert.Empty(t, rest, "told, up to the first of these, by:\n%s", &stdout)
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
	notAsTold := errors.New("not as told")
	var after bool

	err := play(t.Context(), "", newTimeline(&stdout), []scene{
		{"breaks", "x", func(context.Context, *stage, string) error { return notAsTold }},
		{"never comes", "x", func(context.Context, *stage, string) error { after = true; return nil }},
	})

	require.ErrorIs(t, err, notAsTold)
	assert.ErrorContains(t, err, "breaks: ")
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
