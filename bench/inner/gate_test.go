package inner

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

// workload keeps a number of calls in flight. The first contender is compared with each of the others.
type workload struct {
	name       string
	goroutines int
	unit       string
	scripts    int64 // exact number of EVALSHA for each call
	contenders []contender
}

// nameOf returns a function that names the lock of a goroutine.
func (w workload) nameOf(c contender) func(int) string {
	return func(goroutine int) string {
		return fmt.Sprintf("bench:%s:%d:%s:%d", w.name, w.goroutines, c.name, goroutine)
	}
}

func (w workload) String() string { return fmt.Sprintf("%s-%d", w.name, w.goroutines) }

func (w workload) open(tb testing.TB, c contender) load {
	l := c.open(tb, w.goroutines, w.nameOf(c))
	measure(tb, l, 0, 4*w.goroutines) // a warm-up: connections, scripts, buffers
	return l
}

// check fails unless the server ran the expected number of scripts. In this way it finds a contender that does not wait for its replies. Such a
// contender would seem fast, and would slow down the next one.
func (w workload) check(s *sample) error {
	if want := w.scripts * int64(s.wait.n); w.scripts > 0 && s.scripts != want {
		return fmt.Errorf("the server ran %d scripts for %d %s, not %d", s.scripts, s.wait.n, w.unit, want)
	}
	return nil
}

func benchmark(b *testing.B, workloads []workload) {
	for _, w := range workloads {
		b.Run(w.String(), func(b *testing.B) {
			for _, c := range w.contenders {
				b.Run("by="+c.name, func(b *testing.B) {
					l := w.open(b, c)
					b.ReportAllocs()
					b.ResetTimer()
					s := measure(b, l, 0, b.N)
					b.StopTimer()
					if err := w.check(s); err != nil {
						b.Fatal(err)
					}
					b.ReportMetric(s.rate(), w.unit+"/s")
					b.ReportMetric(s.scriptsPerPair(), "scripts/op")
					b.ReportMetric(s.cpuPerPair(), "cpu-us/op")
					b.ReportMetric(s.serverPerPair(), "server-us/op")
					b.ReportMetric(micros(s.wait.at(0.5)), "p50-us")
					b.ReportMetric(micros(s.wait.at(0.99)), "p99-us")
					b.ReportMetric(micros(s.wait.max), "max-us")
				})
			}
		})
	}
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// The defaults only show that the code works. Meaningful figures need -rounds 7 -window 1s.
var (
	rounds = flag.Int("rounds", 1, "how often TestGateway measures each contender")
	window = flag.Duration("window", 20*time.Millisecond, "for how long TestGateway measures a contender each time")
	only   = flag.String("only", "", "the only workload that TestGateway measures, for example gateway-64; empty: all")
)

// gate measures the contenders in turn, round by round, so that other load on the machine affects all of them alike. It compares them
// within each round.
func gate(t *testing.T, workloads []workload) {
	for _, w := range workloads {
		if *only == "" || *only == w.String() {
			t.Run(w.String(), w.gate)
		}
	}
}

func (w workload) gate(t *testing.T) {
	loads := make([]load, len(w.contenders))
	for i, c := range w.contenders {
		loads[i] = w.open(t, c)
	}
	samples := make([][]*sample, len(loads))
	for range *rounds {
		for i, l := range loads {
			s := measure(t, l, *window, 0)
			if err := w.check(s); err != nil {
				t.Fatalf("%s: %v: the figures mean nothing", w.contenders[i].name, err)
			}
			samples[i] = append(samples[i], s)
		}
	}
	t.Logf("\n%s", w.table(samples))
}

// table returns medians over the rounds, and in brackets the values of the lowest and the highest round. The figures in the last four columns are for
// one acquire with its release.
func (w workload) table(samples [][]*sample) string {
	var text strings.Builder
	t := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "%s\t%s/s\t\t%s is\t\tp50\tp99\tmax\tp99/mean\tscripts\tcpu us\tserver us\tallocs\n", w, w.unit, w.contenders[0].name)
	for i, c := range w.contenders {
		rate, lowest, highest := spread(each(samples[i], (*sample).rate))
		ratio, least, most := spread(ratios(samples[0], samples[i]))
		median := func(f func(s *sample) float64) float64 {
			m, _, _ := spread(each(samples[i], f))
			return m
		}
		quantile := func(q float64) string {
			return time.Duration(median(func(s *sample) float64 { return float64(s.wait.at(q)) })).Round(time.Microsecond).String()
		}
		fmt.Fprintf(t, "%s\t%.0f\t[%.0f %.0f]\t%.2f x\t[%.2f %.2f]\t%s\t%s\t%s\t%.1f\t%.3f\t%.1f\t%.1f\t%.0f\n",
			c.name, rate, lowest, highest, ratio, least, most, quantile(0.5), quantile(0.99), quantile(1),
			median(func(s *sample) float64 { return float64(s.wait.at(0.99)) / float64(max(s.wait.mean(), 1)) }),
			median((*sample).scriptsPerPair), median((*sample).cpuPerPair), median((*sample).serverPerPair), median((*sample).allocsPerPair))
	}
	_ = t.Flush()
	return text.String()
}

func each(samples []*sample, f func(*sample) float64) []float64 {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = f(s)
	}
	return values
}

// ratios returns how many times faster the first contender is than the second, in each round.
func ratios(first, second []*sample) []float64 {
	values := make([]float64, len(first))
	for i := range first {
		values[i] = first[i].rate() / second[i].rate()
	}
	return values
}

// spread returns the median, the lowest and the highest value.
func spread(values []float64) (median, lowest, highest float64) {
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2, s[0], s[n-1]
}

// TestContenders_AllWork runs each contender briefly, so that a broken benchmark is noticed without a measurement.
func TestContenders_AllWork(t *testing.T) {
	for _, w := range gatewayWorkloads {
		for _, c := range w.contenders {
			t.Run(w.String()+"/"+c.name, func(t *testing.T) {
				pairs := 2*w.goroutines + 1
				s := measure(t, w.open(t, c), 0, pairs)
				if s.pairs != int64(pairs) || s.wait.n != uint64(pairs) {
					t.Errorf("%d pairs and %d waits, want %d", s.pairs, s.wait.n, pairs)
				}
				if err := w.check(s); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
