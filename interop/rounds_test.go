package interop

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/locktest"
)

const players = 2 // per side

// files are the files that the rounds of both sides share. Only the lock guards them.
type files struct {
	number, tokens string

	last     atomic.Int64 // the number that our side wrote last
	switches atomic.Int64 // how often our side found a number that the other side had written
}

func newFiles(t *testing.T) *files {
	dir := t.TempDir()
	f := &files{number: filepath.Join(dir, "number"), tokens: filepath.Join(dir, "tokens")}
	require.NoError(t, os.WriteFile(f.number, []byte("0"), 0o600))
	return f
}

func (f *files) read() (int64, error) {
	text, err := os.ReadFile(f.number)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(text), 10, 64)
}

// increment is not atomic: it loses increments unless the caller has the lock.
func (f *files) increment() error {
	n, err := f.read()
	if err != nil {
		return err
	}
	if n != f.last.Load() {
		f.switches.Add(1)
	}
	f.last.Store(n + 1)
	runtime.Gosched()
	return os.WriteFile(f.number, []byte(strconv.FormatInt(n+1, 10)), 0o600)
}

// look reads the number twice, and fails if it has changed: while the caller holds the read lock, there is no writer.
func (f *files) look() error {
	before, err := f.read()
	if err != nil {
		return err
	}
	runtime.Gosched()
	if after, err := f.read(); err != nil || after != before {
		return fmt.Errorf("the number changed while it was read: %d, then %d, %w", before, after, err)
	}
	return nil
}

func (f *files) token(token int64) error {
	out, err := os.OpenFile(f.tokens, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, token)
	return errors.Join(err, out.Close())
}

// lingerOfRounds is long compared with one round, and short compared with all of them together.
const lingerOfRounds = 5 * time.Millisecond

// Threads of both sides, and of a runtime whose locks linger, increment a number in a plain file. If two threads had the lock at the same time,
// an increment could be lost: the test checks that none is. With a read/write lock, every other round only reads; a latch is counted down instead.
func TestInterop_ContendedRounds(t *testing.T) {
	everywhere(t, all, func(t *testing.T, m *meeting) {
		t.Parallel()
		each := locktest.Scaled(1000, 20) / players &^ 1 // even: every other round only reads
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
		defer cancel()
		ours, theirs, f := m.ours(t, 0), m.theirs(t, 0), newFiles(t)
		all := 3 * players * each
		free := map[string]int{"latch": all}[m.kind.counter]
		require.NoError(t, ours.set(ctx, m.kind, m.name, max(free, 1)))
		began := time.Now()
		contend(ctx, t, m, each, f, ours, m.lingering(t, lingerOfRounds), theirs)
		took := time.Since(began)
		if m.kind.counter == "latch" {
			assert.Zero(t, m.look.Exists(ctx, m.name).Val(), "the latch is at zero")
			m.report(t, rounds, fmt.Sprintf("%d", all))
			return
		}
		n, err := f.read()
		require.NoError(t, err)
		want := all
		if m.kind.rival != "" {
			want = all / 2
		}
		assert.EqualValues(t, want, n)
		if each >= 100 { // with fewer rounds, one side may finish before the other begins
			assert.Positive(t, f.switches.Load(), "both sides worked at the same time")
		}
		if m.kind.theirs == "fenced" {
			increasing(t, f, want)
		}
		m.report(t, rounds, fmt.Sprintf("%d, %d changes of side, %s", all, 2*f.switches.Load(), took.Round(100*time.Millisecond)))
	})
}

func contend(ctx context.Context, t *testing.T, m *meeting, each int, f *files, sides ...side) {
	var group sync.WaitGroup
	for _, s := range sides {
		for range players {
			group.Go(func() { assert.NoError(t, s.rounds(ctx, m.kind, m.name, each, f), s) })
		}
	}
	group.Wait()
}

// increasing checks that the file of tokens, to which the holders of both sides append, has `want` tokens, each larger than the one before.
func increasing(t *testing.T, f *files, want int) {
	text, err := os.ReadFile(f.tokens)
	require.NoError(t, err)
	tokens := strings.Fields(string(text))
	assert.Len(t, tokens, want)
	for i, last := 0, int64(0); i < len(tokens); i++ {
		token, err := strconv.ParseInt(tokens[i], 10, 64)
		require.NoError(t, err)
		require.Greater(t, token, last, "token %d", i)
		last = token
	}
}

func (s *javaSide) rounds(ctx context.Context, k kind, name string, n int, f *files) error {
	_, err := s.ask(ctx, "rounds", "kind="+k.theirs+k.counter, "name="+k.theirName(name), "n="+strconv.Itoa(n), "file="+f.number, "tokens="+f.tokens)
	return err
}

func (s *goSide) rounds(ctx context.Context, k kind, name string, n int, f *files) error {
	for i := range n {
		<-time.After(rand.N(time.Millisecond)) // a service also does other things
		if err := s.round(ctx, k, name, i, f); err != nil {
			return fmt.Errorf("round %d: %w", i, err)
		}
	}
	return nil
}

func (s *goSide) round(ctx context.Context, k kind, name string, i int, f *files) error {
	if k.counter == "latch" {
		return s.rt.CountDownLatch(name).CountDown(ctx)
	}
	inside := f.increment
	if k.rival != "" && i%2 == 1 {
		inside = f.look
	} else {
		k = k.waiter()
	}
	p := s.party(k, name)
	if err := p.take(ctx, 0); err != nil {
		return err
	}
	err := inside()
	if holder, ok := p.(*goParty); ok && holder.lease.Token() > 0 {
		err = errors.Join(err, f.token(holder.lease.Token()))
	}
	return errors.Join(err, p.give(ctx))
}
