package redissonpeer

// Waiting is how many callers of Lock are blocked on the lock of that name.
func (p *Peer) Waiting(name string) int64 { return p.WaitingOn(Channel(name)) }

// WaitingOn is how many callers are blocked until a message comes on that channel.
func (p *Peer) WaitingOn(channel string) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	ch := p.channels[channel]
	if ch == nil {
		return 0
	}
	return ch.waiting.Load()
}

// Watched is how many locks the watchdog renews.
func (p *Peer) Watched() int { return len(p.watchdog.collect()) }
