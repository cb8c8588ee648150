package soak_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// grown tells what the process has more of in the last third than in the first.
func grown(looks []look) (wrong []string) {
	third := len(looks) / 3
	if third == 0 {
		return []string{"too few looks to see whether anything grows"}
	}
	first, last := looks[:third], looks[len(looks)-third:]
	if before, after := median(first, look.heapOf), median(last, look.heapOf); after > before+before/4+1<<20 {
		wrong = append(wrong, fmt.Sprintf("heap: %d kB, and %d kB in the end", before>>10, after>>10))
	}
	if before, after := median(first, look.goroutinesOf), median(last, look.goroutinesOf); after > before+before/10 {
		wrong = append(wrong, fmt.Sprintf("goroutines: %d, and %d in the end", before, after))
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

// report is a table in Markdown, one line for each look.
func report(looks []look) string {
	var b strings.Builder
	var sum look
	b.WriteString("# A soak\n\nWritten by `make soak`. Each line is what happened since the one before, then what there was at rest.\n\n" +
		"| granted | failed | lost | faults | wrong | at rest after | heap | goroutines | Redis |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, l := range looks {
		fmt.Fprintf(&b, "| %d | %d | %d | %d | %d | %v | %d kB | %d | %s |\n",
			l.granted, l.failed, l.lost, l.faults, len(l.wrong), l.rest.Round(10*time.Millisecond), l.heap>>10, l.goroutines, l.redis)
		sum.granted, sum.failed, sum.lost, sum.faults = sum.granted+l.granted, sum.failed+l.failed, sum.lost+l.lost, sum.faults+l.faults
		sum.wrong = append(sum.wrong, l.wrong...)
	}
	fmt.Fprintf(&b, "\nIn all %d grants, %d calls that failed, %d leases lost and told, %d faults, %d things wrong.\n",
		sum.granted, sum.failed, sum.lost, sum.faults, len(sum.wrong))
	return b.String()
}
