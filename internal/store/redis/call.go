package redis

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/store"
)

// A call is one request on its way to Redis and back.
type call struct {
	nodes []string // keys of the ops, each once
	names []string // the same in Redis, then those of logs
	args  []byte   // what driver.lua takes
	cmd   *goredis.Cmd

	reply     string
	err       error
	done      chan struct{}
	abandoned atomic.Bool
}

var calls = sync.Pool{New: func() any { return &call{done: make(chan struct{}, 1)} }}

func newCall() *call { return calls.Get().(*call) }

// free gives the call back; only of a call that was waited for.
func (c *call) free() {
	clear(c.nodes)
	clear(c.names)
	*c = call{nodes: c.nodes[:0], names: c.names[:0], args: c.args[:0], done: c.done}
	calls.Put(c)
}

func (c *call) finish(reply string, err error) {
	c.reply, c.err = reply, err
	c.done <- struct{}{}
}

// encode packs the ops at time now.
func (c *call) encode(now int64, ops []store.Op) {
	for i := range ops {
		c.node(ops[i].Key)
	}
	le := binary.LittleEndian
	b := le.AppendUint64(c.args, uint64(now))
	b = le.AppendUint16(b, uint16(len(c.nodes)))
	for i := range ops {
		op := &ops[i]
		node := c.node(op.Key)
		b = le.AppendUint16(b, uint16(node+1))
		b = append(b, byte(op.Limit.Algorithm), byte(op.Kind), byte(op.Role))
		b = le.AppendUint16(b, uint16(op.Descriptor))
		b = binary.BigEndian.AppendUint64(b, op.Limit.ID())
		b = le.AppendUint64(b, uint64(op.Cost))
		params := op.Limit.Params(now)
		if op.Limit.Algorithm == algo.SlidingWindowLog {
			params[2] = int64(c.log(c.names[node], op.Limit.ID()) + 1)
		}
		for _, p := range params {
			b = le.AppendUint64(b, uint64(p))
		}
	}
	c.args = b
}

// node returns the index of the key among the nodes.
func (c *call) node(key string) int {
	for i, k := range c.nodes {
		if k == key {
			return i
		}
	}
	c.nodes = append(c.nodes, key)
	c.names = append(c.names, name(key))
	return len(c.nodes) - 1
}

// log returns the index of the list of the node's log among the names.
func (c *call) log(node string, id uint64) int {
	list := logName(node, id)
	for i := len(c.nodes); i < len(c.names); i++ {
		if c.names[i] == list {
			return i
		}
	}
	c.names = append(c.names, list)
	return len(c.names) - 1
}

// logName is the key of a log in Redis, of the node's key there.
func logName(node string, id uint64) string {
	return node + "/~log:" + strconv.FormatUint(id, 36)
}

// noRetry is a command that go-redis does not repeat on its own.
type noRetry struct{ *goredis.Cmd }

func (noRetry) NoRetry() bool { return true }

// queueOn queues the call as the command on script.
func (c *call) queueOn(pipe *goredis.Pipeline, command, script string) {
	args := make([]any, 0, 4+len(c.names))
	args = append(args, command, script, len(c.names))
	for _, n := range c.names {
		args = append(args, n)
	}
	c.cmd = goredis.NewCmd(nil, append(args, c.args)...) //nolint:staticcheck // the pipeline's context rules
	_ = pipe.Process(nil, noRetry{c.cmd})                //nolint:staticcheck // as above; queueing cannot fail
}

const recordSize = 40

// recordIDs returns the ids of the records in the value of a node.
func recordIDs(value string) []uint64 {
	var ids []uint64
	for at := 1; at+recordSize <= len(value); at += recordSize {
		ids = append(ids, binary.BigEndian.Uint64([]byte(value[at:at+8])))
	}
	return ids
}

const (
	replySize     = 40
	statusDenied  = 0
	statusAllowed = 1
	statusForeign = 2
)

// decode puts the outcomes into the ops.
func (c *call) decode(ops []store.Op) error {
	if len(c.reply) != replySize*len(ops) {
		return fmt.Errorf("%w: redis: reply of %d bytes to %d ops", store.ErrUnavailable, len(c.reply), len(ops))
	}
	for i := range ops {
		word := func(n int) int64 {
			return int64(binary.LittleEndian.Uint64([]byte(c.reply[replySize*i+8*n:][:8])))
		}
		op := &ops[i]
		op.Decision, op.Err = algo.Decision{}, nil
		switch word(0) {
		case statusDenied, statusAllowed:
			op.Decision = algo.Decision{
				Allowed:   word(0) == statusAllowed,
				Remaining: word(1), RetryAfter: word(2), ResetAfter: word(3), Delay: word(4),
			}
		default:
			op.Err = store.ErrForeign
		}
	}
	return nil
}
