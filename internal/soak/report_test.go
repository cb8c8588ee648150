package soak_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// grown returns error texts if the heap or the number of goroutines was clearly larger in the last third of the looks than in the first third.
func grown(looks []look) (wrong []string) {
	third := len(looks) / 3
	if third == 0 {
		return []string{"too few looks to tell whether anything grows"}
	}
	first, last := looks[:third], looks[len(looks)-third:]
	if before, after := median(first, look.heapOf), median(last, look.heapOf); after > before+before/4+1<<20 {
		wrong = append(wrong, fmt.Sprintf("heap: %d kB at the beginning, %d kB at the end", before>>10, after>>10))
	}
	if before, after := median(first, look.goroutinesOf), median(last, look.goroutinesOf); after > before+before/10 {
		wrong = append(wrong, fmt.Sprintf("goroutines: %d at the beginning, %d at the end", before, after))
	}
	return wrong
}

func (l look) heapOf() uint64    { return l.heap }
func (l look) goroutinesOf() int { return l.goroutines }

func median[V cmp.Ordered](looks []look, of func(look) V) V {
	var values []V
	for _, l := range looks {
		values = append(values, of(l))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// report returns a table in Markdown with one line for each look.
func report(written string, looks []look) string {
	var b strings.Builder
	var sum look
	fmt.Fprintf(&b, "# A soak test\n\nWritten by `%s`. Each row shows first what has happened since the previous row, and then what was found when all use had stopped. The first row is a round without faults. A *forgetful failover* may have lost the newest writes. A *surprise* is a forgetful failover that the test did not cause, and *excused* counts the violations that surprises explain. *Disturbed* counts the connections that a fault disturbed; for each of them, clients may open up to three new ones. *Served after* is the time from the last fault until every process had had every lock; *at rest after* is the time until nothing was left in Redis. *Longest stall* is the longest pause of the machine after the last fault, and *repeated* counts the calls that failed because of such a pause, and were repeated. *Goroutines* leaves out the two that forward each connection.\n\n"+
		"| granted | failed | lost | faults | forgetful failovers | surprises | wrong | excused | connections/s | disturbed/s | scripts/s | served after | longest stall | repeated | at rest after | heap | goroutines | Redis |\n"+
		"| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n", written)
	for _, l := range looks {
		fmt.Fprintf(&b, "| %d | %d | %d | %d | %d | %d | %d | %d | %.1f | %.1f | %.0f | %v | %v | %d | %v | %d kB | %d | %s |\n",
			l.granted, l.failed, l.lost, l.faults, l.forgetful, l.surprises, len(l.wrong), l.excused,
			l.pace.connections, l.disturbed, l.pace.scripts, l.served.Round(10*time.Millisecond), l.stalled.Round(time.Millisecond), l.starved, l.rest.Round(10*time.Millisecond), l.heap>>10, l.goroutines, l.redis)
		sum.granted, sum.failed, sum.lost, sum.faults = sum.granted+l.granted, sum.failed+l.failed, sum.lost+l.lost, sum.faults+l.faults
		sum.wrong = append(sum.wrong, l.wrong...)
		sum.forgetful, sum.surprises, sum.excused = sum.forgetful+l.forgetful, sum.surprises+l.surprises, sum.excused+l.excused
	}
	fmt.Fprintf(&b, "\nIn all there were %d grants, %d failed calls, %d leases that were lost and reported, %d faults and %d violations.\n",
		sum.granted, sum.failed, sum.lost, sum.faults, len(sum.wrong))
	if sum.forgetful > 0 {
		fmt.Fprintf(&b, "\n%d failovers may have lost the newest writes. %d of them were not planned, and excuse %d more violations.\n",
			sum.forgetful, sum.surprises, sum.excused)
	}
	return b.String()
}
