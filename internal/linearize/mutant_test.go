package linearize_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/internal/linearize"
)

const (
	tries          = 3
	mutantPatience = 2 * time.Second
)

// Each script that is broken on purpose is noticed within three tries. The test prints lines that begin with "mutant", for the table in SAFETY.md.
func TestLinearize_Mutants(t *testing.T) {
	for i := range linearize.Mutants {
		mutant := &linearize.Mutants[i]
		t.Run(mutant.Name, func(t *testing.T) {
			t.Parallel()
			broken := false
			for try := 1; try <= tries; try++ {
				h := linearize.Run(t, linearize.Plan{
					Kind: linearize.KindOf(mutant.Kind), Lease: leaseAtLeast(), Duration: time.Duration(try) * 3 * time.Second, Least: 400 * try,
					Mutant: mutant, Seed: *seed + uint64(try),
				})
				broken = broken || h.Setting.Broken
				v := linearize.Check(h, mutantPatience)
				if len(v.Violations) > 0 {
					fmt.Printf("mutant %s: caught by %s at try %d\n", mutant.Name, assertions(v), try)
					return
				}
			}
			assert.Fail(t, "not noticed", "a script that has the text was used: %v", broken)
		})
	}
}

// assertions lists the assertions that did not hold.
func assertions(v *linearize.Verdict) string {
	var all []string
	for _, violation := range v.Violations {
		id, _, _ := strings.Cut(violation, ":")
		if !slices.Contains(all, id) {
			all = append(all, id)
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
