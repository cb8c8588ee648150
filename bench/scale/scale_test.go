package scale

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

var curve = flag.Bool("curve", false, "measure all demands, which takes a minute, and print the table of bench/README.md")

// demands are the rows of the table in bench/README.md. In the first rows, all processes want one lock. In the others, they want many locks, a few of
// them often.
var demands = []Demand{
	{Processes: 1, Names: 1, Grants: 1000},
	{Processes: 10, Names: 1, Grants: 1000},
	{Processes: 100, Names: 1, Grants: 1000},
	{Processes: 1000, Names: 1, Grants: 2000},
	{Processes: 10, Names: 10_000, Grants: 1000},
	{Processes: 100, Names: 10_000, Grants: 5000},
	{Processes: 1000, Names: 10_000, Grants: 10_000},
}

func measure(t *testing.T, d Demand) (c Curve) {
	synctest.Test(t, func(t *testing.T) { c = Run(t, d) })
	return c
}

func TestCurve(t *testing.T) {
	if !*curve {
		t.Skip("only with -curve")
	}
	fmt.Print("| processes | names | scripts | commands | messages | pace | longest wait | least share |\n|", strings.Repeat(" --- |", 8), "\n")
	for _, d := range demands {
		c := measure(t, d)
		fmt.Printf("| %d | %d | %.1f | %.1f | %.1f | %.0f %% | %.1f | %.2f |\n",
			d.Processes, d.Names, c.Scripts, c.Commands, c.Messages, 100*c.Pace, c.Longest, c.Share)
	}
}

func TestRun_AFreeLockIsTwoScriptsAndNoMessage(t *testing.T) {
	c := measure(t, Demand{Processes: 1, Names: 1, Grants: 100})
	assert.InDelta(t, 2, c.Scripts, 0.1, "the script that ends the world is not counted")
	assert.Zero(t, c.Messages)
	assert.Greater(t, c.Commands, c.Scripts)
	assert.InDelta(t, 1, c.Share, 0)
}

func TestRun_WaitersAreToldOfReleases(t *testing.T) {
	c := measure(t, Demand{Processes: 5, Names: 1, Grants: 100})
	assert.Greater(t, c.Scripts, 2.0)
	assert.Greater(t, c.Messages, 1.0)
	assert.Positive(t, c.Share, "each process had a turn")
	assert.Less(t, c.Pace, 1.0)
}

// Once 64 processes wait for the lock, Redis gives each of them a place in an order (scripts/lib/crowd.lua). Only the processes in front are notified
// of releases.
func TestRun_ACrowdTakesTurns(t *testing.T) {
	c := measure(t, Demand{Processes: 100, Names: 1, Grants: 400})
	assert.Positive(t, c.Share, "each process had a turn")
	assert.Less(t, c.Longest, 10.0)
	assert.Less(t, c.Scripts, 7.0)
	assert.Less(t, c.Messages, 45.0)
}

// A process that gives up and tries again keeps its place. It does not call Redis more often than other processes do.
func TestRun_ACrowdOfTheImpatient(t *testing.T) {
	c := measure(t, Demand{Processes: 100, Names: 1, Grants: 400, Patience: 20 * time.Millisecond})
	assert.Positive(t, c.Share, "each process had a turn")
	assert.Less(t, c.Scripts, 7.0)
	assert.Less(t, c.Messages, 45.0)
}

// Processes that give up, and come back later, do not keep the others from their turns.
func TestRun_ACrowdWithAPatientProcess(t *testing.T) {
	d := Demand{Processes: 200, Names: 1, Grants: 2000, Patience: 10 * time.Millisecond, Think: 50 * time.Millisecond, Patient: 3}
	assert.Greater(t, measure(t, d).Patients, 0.1)
}

// The tickets of processes that have stopped waiting delay the others for a short time only.
func TestRun_ACrowdThatLeaves(t *testing.T) {
	c := measure(t, Demand{Processes: 100, Names: 1, Grants: 800, Leavers: 70})
	assert.Greater(t, c.Pace, 0.25)
	assert.Less(t, c.Scripts, 8.0)
}

// If messages take longer for one process than for the others, that process often tries too late when it is first in the order. It keeps its place
// nevertheless.
func TestRun_ACrowdWithASlowProcess(t *testing.T) {
	c := measure(t, Demand{Processes: 100, Names: 1, Grants: 2000, Slow: 1})
	assert.Greater(t, c.Share, 0.4)
}

// Subscribers that never want the lock hardly slow the others down. If there are fewer than 64 subscribers in all, each process counts turns to
// estimate how many subscribers do not want the lock. If there are more, Redis gives places only to processes that want the lock.
func TestRun_MereListeners(t *testing.T) {
	for _, d := range []Demand{{Processes: 4, Listeners: 20}, {Processes: 4, Listeners: 60}, {Processes: 4, Listeners: 200}, {Processes: 20, Listeners: 60}} {
		d.Names, d.Grants = 1, 1000
		c := measure(t, d)
		if d.Processes+d.Listeners < 64 {
			assert.Greater(t, c.Pace, 0.3, "%+v", c)
		} else {
			assert.Greater(t, c.Pace, 0.55, "%+v", c)
		}
		assert.Less(t, c.Scripts, 5.0, "%+v", c)
		assert.Greater(t, c.Share, 0.2, "%+v", c)
	}
}

func TestRun_ManyNamesAreSeldomContended(t *testing.T) {
	c := measure(t, Demand{Processes: 5, Names: 1000, Grants: 100})
	assert.Less(t, c.Messages, 4.0)
}
