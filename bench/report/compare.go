package report

import "fmt"

// worseBy says when a new ratio counts as worse: when it is less than worseBy times the recorded ratio.
const worseBy = 0.75

// Worse compares a new run with the recorded one. It compares the ratios of the first contender to each other contender, because rates depend more on
// the machine than ratios do. The result has a text for each ratio that is now more than a quarter below the recorded ratio. It also has a text for
// each workload in which the first contender failed. Worse skips contenders that are missing in either run. It also skips contenders without Redis
// (sync.Mutex, etcd), because the ratio to them depends on the speed of the machine's cores or disk.
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
