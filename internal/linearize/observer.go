package linearize

import (
	"context"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// lookAt reads all names at one instant: the server's time, and for each name {fields, TTL, queue, free permits, taken permits, until when
// waiting runtimes count as alive}.
const lookAt = `
local all = {redis.call('time')}
for i, name in ipairs(KEYS) do
  local sort, fields, free = redis.call('type', name).ok, {}, 0
  if sort == 'hash' then fields = redis.call('hkeys', name) end
  if sort == 'string' then free = tonumber(redis.call('get', name)) end
  all[i + 1] = {fields, redis.call('pttl', name), redis.call('lrange', 'redisson_lock_queue:{' .. name .. '}', 0, -1), free,
    redis.call('zrange', '{' .. name .. '}:timeout', 0, -1), redis.call('hgetall', 'holdfast_waiting:{' .. name .. '}')}
end
return all`

// lookEvery is how often the observer looks.
const lookEvery = 2 * time.Millisecond

// observe looks at the names until ctx ends, and once more after that. The last look shows which grants have left a queue since the look before it.
func (r *run) observe(ctx context.Context, client *redis.Client) {
	looks := time.NewTicker(lookEvery)
	defer looks.Stop()
	for ctx.Err() == nil {
		r.lookOnce(client)
		select {
		case <-ctx.Done():
		case <-looks.C:
		}
	}
	r.lookOnce(client)
}

// lookOnce looks at the names over a connection without a proxy, so that only faults of the server disturb the look. While the server restarts,
// the look fails and is not recorded.
func (r *run) lookOnce(client *redis.Client) {
	look := Look{Call: r.now(), Seen: map[string]Seen{}}
	reply, err := client.Eval(context.Background(), lookAt, r.names).Slice()
	if look.Return = r.now(); err != nil || len(reply) != 1+len(r.names) {
		return
	}
	now := reply[0].([]any)
	look.Server = time.Duration(number(now[0]))*time.Second + time.Duration(number(now[1]))*time.Microsecond
	for i, name := range r.names {
		look.Seen[name] = readSeen(reply[i+1].([]any))
	}
	r.look(look)
}

func readSeen(reply []any) Seen {
	s := Seen{TTL: time.Duration(reply[1].(int64)) * time.Millisecond, Free: reply[3].(int64)}
	for _, field := range reply[0].([]any) {
		if field != "mode" {
			s.Holders = append(s.Holders, field.(string))
		}
	}
	for _, grant := range reply[2].([]any) {
		s.Queue = append(s.Queue, grant.(string))
	}
	for _, permit := range reply[4].([]any) {
		s.Holders = append(s.Holders, hex.EncodeToString([]byte(permit.(string))))
	}
	alive := reply[5].([]any)
	for i := 0; i < len(alive); i += 2 {
		if s.Alive == nil {
			s.Alive = map[string]time.Duration{}
		}
		s.Alive[alive[i].(string)] = time.Duration(number(alive[i+1])) * time.Millisecond
	}
	return s
}

func number(reply any) int64 {
	n, _ := strconv.ParseInt(reply.(string), 10, 64) // no error: Redis wrote the number
	return n
}
