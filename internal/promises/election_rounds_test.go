package promises_test

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/childproc"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func init() { childproc.Register("minister", serveInChild) }

// serveInChild campaigns until its process is killed. It prints the times at which its terms begin and end, and resigns for each line of its input.
func serveInChild() {
	lease, err := time.ParseDuration(os.Getenv("LEASE"))
	if err != nil {
		panic(err)
	}
	client := redis.NewClient(&redis.Options{Addr: os.Getenv("ADDR")})
	rt, err := holdfast.New(client, holdfast.Options{Lease: lease, Logger: locktest.Quiet()})
	if err != nil {
		panic(err)
	}
	e := rt.Election("chair", holdfast.ElectionOptions{})
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			e.Resign()
		}
	}()
	fmt.Println(e.Run(context.Background(), func(ctx context.Context, term holdfast.Term) error {
		fmt.Println("begin", term.Token, time.Now().UnixNano())
		<-ctx.Done()
		fmt.Println("end", term.Token, time.Now().UnixNano())
		return nil
	}))
}

// minister is a candidate in a process of its own, behind a link of its own.
type minister struct {
	*childproc.Handle
	link *faultproxy.Proxy
}

// term is the term of one leader. Its times come from the wall clock, which all processes share.
type term struct {
	of         *minister
	token      int64
	begin, end int64 // Unix time in ns, or 0 if it has not ended
}

// government is an election among processes, as an observer sees it.
type government struct {
	t      *testing.T
	server *redistest.Server
	lease  time.Duration
	said   chan said
	terms  []*term // in the order in which the observer learns of them
}

// said is a line that a minister has printed.
type said struct {
	by    *minister
	word  string
	token int64
	at    int64
}

// appoint starts another candidate.
func (g *government) appoint() *minister {
	link := faultproxy.New(g.t, g.server.Addr())
	m := &minister{childproc.Run(g.t, "minister", "ADDR="+link.Addr(), "LEASE="+g.lease.String()), link}
	go func() {
		for {
			line, err := m.ReadLine(time.Hour)
			if err != nil {
				if err != io.EOF { //nolint:errorlint // it is returned as it is
					g.said <- said{by: m, word: err.Error()}
				}
				return
			}
			s := said{by: m}
			if _, err := fmt.Sscan(line, &s.word, &s.token, &s.at); err != nil {
				s.word = line
			}
			g.said <- s
		}
	}()
	return m
}

// hear waits for the next line of any minister.
func (g *government) hear() {
	g.t.Helper()
	select {
	case s := <-g.said:
		g.note(s)
	case <-time.After(locktest.Patience + 2*g.lease):
		require.Fail(g.t, "nobody leads")
	}
}

func (g *government) note(s said) {
	switch s.word {
	case "begin":
		g.terms = append(g.terms, &term{of: s.by, token: s.token, begin: s.at})
	case "end":
		i := slices.IndexFunc(g.terms, func(t *term) bool { return t.token == s.token })
		if t := g.terms[i]; t.end == 0 || s.at < t.end { // for a stopped leader, t.end is the time of the stop, which is earlier
			t.end = s.at
		}
	default:
		require.Fail(g.t, "a minister said "+s.word)
	}
}

// inOffice returns the term that has not ended, as far as the observer knows. If there is none, it waits for one.
func (g *government) inOffice() *term {
	g.t.Helper()
	for {
		for len(g.said) > 0 {
			g.hear()
		}
		if n := len(g.terms); n > 0 && g.terms[n-1].end == 0 {
			return g.terms[n-1]
		}
		g.hear()
	}
}

// successor returns the first term with a larger token than the given term's, and waits for such a term if necessary.
func (g *government) successor(of *term) *term {
	g.t.Helper()
	for {
		if i := slices.IndexFunc(g.terms, func(t *term) bool { return t.token > of.token }); i >= 0 {
			return g.terms[i]
		}
		g.hear()
	}
}

// The leader among five processes is killed, cut off, stopped or asked to resign, many times. Measured by the clock that all processes share,
// no two terms overlap. The token of each term is larger than that of the term before. If the leader is killed, a successor leads within the
// length of a lease plus a second. If the leader resigns, a successor leads within 100 ms.
func TestElection_TermsNeverOverlapAmongProcesses(t *testing.T) {
	t.Parallel()
	g := &government{t: t, server: redistest.Start(t), lease: locktest.Unhurried(time.Second), said: make(chan said, 1000)}
	for range 5 {
		g.appoint()
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	took := map[string][]time.Duration{}
	for range locktest.Scaled(200, 4) {
		leader := g.inOffice()
		how := []string{"kill", "cut", "stop", "resign"}[random.IntN(4)]
		began := time.Now()
		switch how {
		case "kill":
			leader.of.Kill()
			leader.end = time.Now().UnixNano()
			g.appoint()
		case "cut":
			leader.of.link.Blackhole(true)
		case "stop":
			require.NoError(t, leader.of.Stop())
			leader.end = time.Now().UnixNano()
		case "resign":
			leader.of.Send("resign")
		}
		next := g.successor(leader)
		if next.begin > began.UnixNano() { // false if the term had already ended before the test tried to end it
			took[how] = append(took[how], time.Duration(next.begin-began.UnixNano()))
		}
		switch how {
		case "cut":
			leader.of.link.Blackhole(false)
			leader.of.link.Cut()
		case "stop":
			require.NoError(t, leader.of.Cont())
		}
	}
	g.inOffice()
	for how, all := range took {
		slices.Sort(all)
		t.Logf("%s: %d successors, median %v, last %v", how, len(all), all[len(all)/2], all[len(all)-1])
	}
	if !testing.Short() { // a busy machine may take longer
		assert.Less(t, slices.Max(took["kill"]), g.lease+time.Second)
		assert.Less(t, slices.Max(took["resign"]), 100*time.Millisecond)
	}
	slices.SortFunc(g.terms, func(a, b *term) int { return cmp.Compare(a.token, b.token) })
	for i, after := range g.terms[1:] {
		before := g.terms[i]
		assert.Less(t, before.token, after.token)
		assert.Less(t, before.begin, after.begin, "tokens grow with time")
		if before.end > 0 {
			assert.LessOrEqual(t, before.end, after.begin, "terms %d and %d", before.token, after.token)
		}
	}
}

// If Redis is away for half a lease, the leader stays the same.
func TestElection_ShortOutageChangesNoLeader(t *testing.T) {
	t.Parallel()
	lease := locktest.Unhurried(2 * time.Second)
	g := &government{t: t, server: redistest.Start(t), lease: lease, said: make(chan said, 1000)}
	for range 3 {
		g.appoint()
	}
	leader := g.inOffice()
	for range locktest.Scaled(20, 1) {
		g.server.Pause()
		<-time.After(lease / 2)
		g.server.Resume()
		<-time.After(lease)
		assert.Same(t, leader, g.inOffice())
	}
	assert.Len(t, g.terms, 1)
}
