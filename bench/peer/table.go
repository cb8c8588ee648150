package peer

// All lists the contenders in the order in which the harness checks them. In each workload, the harness measures them in the order of Workload.Peers.
// Holdfast is first in both lists, because the ratios compare the first contender with the others.
var All = []*Peer{
	holdfastPeer,
	redislockPeer,
	redislockAutoPeer,
	redislockMutexPeer,
	redsyncPeer,
	rueidislockPeer,
	rueidislockDefaultPeer,
	redissonPeer,
	etcdPeer,
	barePeer,
	bareSetPeer,
	barePublishPeer,
	bareBatchesPeer,
	rawPeer,
	mutexPeer,
}

// ByName returns the contender of that name, or nil.
func ByName(name string) *Peer {
	for _, p := range All {
		if p.Name == name {
			return p
		}
	}
	return nil
}

var (
	exclusiveOnly = []Kind{Exclusive}
	everyKind     = []Kind{Exclusive, Fair, Read, Write, Semaphore}
)
