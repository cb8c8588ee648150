package redissonpeer

// Waiting is how many callers of Lock are blocked on the lock of that name.
func (p *Peer) Waiting(name string) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	ch := p.channels[Channel(name)]
	if ch == nil {
		return 0
	}
	return ch.waiting.Load()
}

// Watched is how many locks the watchdog renews.
func (p *Peer) Watched() int { return len(p.watchdog.collect()) }
