package redissonpeer

// Waiting returns how many callers of Lock are blocked on the lock with this name.
func (p *Peer) Waiting(name string) int64 { return p.WaitingOn(Channel(name)) }

// WaitingOn returns how many callers are blocked until a message arrives on the channel.
func (p *Peer) WaitingOn(channel string) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	ch := p.channels[channel]
	if ch == nil {
		return 0
	}
	return ch.waiting.Load()
}

// Watched returns how many locks the watchdog renews.
func (p *Peer) Watched() int { return len(p.watchdog.collect()) }
