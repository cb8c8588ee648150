package promises_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/childproc"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

func init() { childproc.Register("candidate", campaignInChild) }

// campaignInChild campaigns until its process is killed. It prints a line when it begins to lead, and one when it stops leading.
func campaignInChild() {
	lease, err := time.ParseDuration(os.Getenv("LEASE"))
	if err != nil {
		panic(err)
	}
	client := redis.NewClient(&redis.Options{Addr: os.Getenv("ADDR")})
	rt, err := holdfast.New(client, holdfast.Options{Lease: lease, Logger: locktest.Quiet()})
	if err != nil {
		panic(err)
	}
	e := rt.Election(os.Getenv("NAME"), holdfast.ElectionOptions{Value: "child"})
	fmt.Println(e.Run(context.Background(), func(ctx context.Context, term holdfast.Term) error {
		fmt.Println("leads", term.Token)
		<-ctx.Done()
		fmt.Println("led", e.IsLeader())
		return nil
	}))
}

// child is a candidate in a process of its own. token is the token of its last term.
type child struct {
	*childproc.Handle
	token int64
}

// elected returns when the child leads.
func (c *child) elected(t *testing.T) {
	t.Helper()
	word, token, _ := strings.Cut(c.Line(), " ")
	require.Equal(t, "leads", word)
	n, err := strconv.ParseInt(token, 10, 64)
	require.NoError(t, err)
	assert.Greater(t, n, c.token, "tokens grow")
	c.token = n
}

// againstChild starts a child process that leads an election, and a candidate in this process that waits to lead.
func againstChild(t *testing.T) (*child, *parliament, *candidate) {
	place := locktest.Somewhere(t)
	lease := locktest.Unhurried(time.Second)
	c := &child{Handle: childproc.Run(t, "candidate", "ADDR="+place.Addr, "NAME="+place.Name, "LEASE="+lease.String())}
	c.elected(t)
	p := newParliament(t, place.Name, holdfast.ElectionOptions{}, place.Runtime(t, holdfast.Options{}))
	ours := p.candidates[0]
	leader, err := ours.Leader(t.Context())
	require.NoError(t, err)
	require.Equal(t, []any{"child", c.token}, []any{leader.Value, leader.Token})
	p.campaign()
	locktest.Await(t, "our campaign", func() bool {
		state, err := ours.rt.FencedLock(place.Name).Inspect(t.Context())
		return err == nil && state.Waiting == 1
	})
	return c, p, ours
}

func TestElection_KilledLeaderIsSucceeded(t *testing.T) {
	t.Parallel()
	c, p, ours := againstChild(t)
	c.Kill()
	m := p.elected(ours)
	assert.Greater(t, m.Token, c.token)
}

// A leader that is stopped for longer than its lease no longer leads when it continues, and does not overwrite the new leader.
func TestElection_StoppedLeaderIsNoneWhenItContinues(t *testing.T) {
	t.Parallel()
	c, p, ours := againstChild(t)
	require.NoError(t, c.Stop())
	m := p.elected(ours)
	assert.Greater(t, m.Token, c.token)
	require.NoError(t, c.Cont())
	assert.Equal(t, "led false", c.Line())
	leader, err := ours.Leader(t.Context())
	require.NoError(t, err)
	assert.Equal(t, m.Token, leader.Token)
	c.token = m.Token
	m.Resign()
	c.elected(t)
}
