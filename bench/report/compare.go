package report

import "fmt"

// worseBy is the share of a recorded ratio below which a ratio counts as worse.
const worseBy = 0.75

// Worse compares two runs by the ratios of the first contender to the others. It returns the ratios that are now more than a quarter below the
// recorded ones, by workload and contender, and the workloads in which the first contender failed. It uses ratios, because rates depend more than
// ratios on the machine. It skips contenders that are missing in either run, and those that use no Redis (sync.Mutex, etcd): the ratio to them says
// how fast the machine's cores or disk are.
func Worse(recorded, now *Results) map[string]string {
	worse := map[string]string{}
	for i := range now.Workloads {
		w := &now.Workloads[i]
		then := recorded.workload(w.Name)
		if then == nil {
			continue
		}
		for j := range w.Outcomes {
			o := &w.Outcomes[j]
			before := then.Outcome(o.Peer)
			key := w.Name + " beside " + o.Peer
			switch {
			case j == 0 && o.Failed != "":
				worse[w.Name] = o.Failed
			case before == nil || before.Ratio == nil || o.Ratio == nil || !o.usesRedis():
			case o.Ratio.Median < worseBy*before.Ratio.Median:
				worse[key] = fmt.Sprintf("%s x, recorded %s x", Ratio(o.Ratio.Median), Ratio(before.Ratio.Median))
			}
		}
	}
	return worse
}

func (o *Outcome) usesRedis() bool { return o.Summary["commands_per_pair"].Median > 0 }

func (r *Results) workload(name string) *Workload {
	for i := range r.Workloads {
		if r.Workloads[i].Name == name {
			return &r.Workloads[i]
		}
	}
	return nil
}
