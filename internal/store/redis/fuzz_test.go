package redis_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/algo/algotest"
	"github.com/rlsd/rlsd/internal/redistest"
	"github.com/rlsd/rlsd/internal/store"
	"github.com/rlsd/rlsd/internal/store/redis"
)

// both is a bucket in Redis beside one of plain Go.
type both struct {
	store store.Store
	key   string
	l     algo.Limit
	s     algo.State
}

func newBoth(s store.Store, a algo.Algorithm, quota, window int64) *both {
	b := &both{store: s, key: fmt.Sprint(a, quota, window), l: algo.Limit{Algorithm: a, Quota: quota, Window: window}}
	if a.IsBucket() {
		b.l.Burst = quota
	}
	return b
}

// do asks both the same and wants the same answer.
func (b *both) do(t *testing.T, at int64, kind store.Kind, cost int64) algo.Decision {
	t.Helper()
	ops := []store.Op{{Key: b.key, Limit: &b.l, Kind: kind, Role: store.Must, Cost: cost}}
	if err := b.store.Take(context.Background(), time.UnixMicro(at), ops); err != nil || ops[0].Err != nil {
		t.Fatal(err, ops[0].Err)
	}
	var want algo.Decision
	switch kind {
	case store.Take:
		want = algo.Step(&b.s, &b.l, at, cost, 0)
	case store.Peek:
		peeked := b.s
		want = algo.Step(&peeked, &b.l, at, 0, 0)
	case store.Give:
		want = algo.Step(&b.s, &b.l, at, -cost, 0)
	case store.Charge:
		want = algo.Charge(&b.s, &b.l, at, cost)
	}
	if ops[0].Decision != want {
		t.Errorf("%+v at %d, kind %d, cost %d\nredis %+v\n   go %+v", b.l, at, kind, cost, ops[0].Decision, want)
	}
	return ops[0].Decision
}

// keyOf returns the one key in Redis that matches.
func keyOf(t *testing.T, c *goredis.Client, pattern string) string {
	t.Helper()
	keys := c.Keys(context.Background(), pattern).Val()
	if len(keys) != 1 {
		t.Fatalf("%q matches %q, want one key", pattern, keys)
	}
	return keys[0]
}

func newRedis(t *testing.T) (*redis.Store, *goredis.Client) {
	t.Helper()
	t.Parallel()
	server := redistest.Start(t)
	return open(t, server, redis.Options{}), client(t, server)
}

// planted has the log of a bucket be what is given: pairs of times and sums.
func planted(t *testing.T, s store.Store, c *goredis.Client, b *both, words ...int64) (key string) {
	t.Helper()
	if _, err := take(s, must(b.key, &b.l)); err != nil {
		t.Fatal(err)
	}
	key = keyOf(t, c, "*"+b.key+"/~log:*")
	c.Del(context.Background(), key)
	for batch := range slices.Chunk(words, 20_000) {
		var entries []any
		for pair := range slices.Chunk(batch, 2) {
			entry := binary.LittleEndian.AppendUint64(nil, uint64(pair[0]))
			entries = append(entries, binary.LittleEndian.AppendUint64(entry, uint64(pair[1])))
		}
		if err := c.RPush(context.Background(), key, entries...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	return key
}

// TestPR09Muldiv multiplies in Lua at the edges of what its numbers hold.
func TestPR09Muldiv(t *testing.T) {
	_, c := newRedis(t)
	const most, divisor = 1<<53 - 1, 1<<45 - 1
	edges := []int64{1, 2, 3, 7, 127, 128, 129, 321, 1 << 14, 1<<21 - 1, 1 << 28, 1<<32 - 1, 1 << 40, divisor, 28059810762433, 1 << 52, most}
	var input []byte
	var want [][2]int64
	for _, a := range edges {
		for _, b := range edges {
			for _, d := range edges {
				q, r := new(big.Int).QuoRem(new(big.Int).Mul(big.NewInt(a), big.NewInt(b)), big.NewInt(d), new(big.Int))
				if d > divisor || q.Cmp(big.NewInt(most)) > 0 {
					continue
				}
				for _, word := range []int64{a, b, d} {
					input = binary.LittleEndian.AppendUint64(input, uint64(word))
				}
				want = append(want, [2]int64{q.Int64(), r.Int64()})
			}
		}
	}
	reply, err := c.Eval(context.Background(), algo.Script()+`
local out = {}
for pos = 1, #ARGV[1], 24 do out[#out + 1] = struct.pack('<i8i8', muldiv(struct.unpack('<i8i8i8', ARGV[1], pos))) end
return table.concat(out)`, nil, input).Text()
	if err != nil || len(reply) != 16*len(want) {
		t.Fatal(err, len(reply))
	}
	word := func(s string) int64 { return int64(binary.LittleEndian.Uint64([]byte(s))) }
	for i, w := range want {
		if q, r := word(reply[16*i:]), word(reply[16*i+8:]); q != w[0] || r != w[1] {
			t.Errorf("%d * %d / %d = %d, %d; want %v", word(string(input[24*i:])), word(string(input[24*i+8:])), word(string(input[24*i+16:])), q, r, w)
		}
	}
}

// TestPR09SumsBeginAnew has a log whose sums reach 2^53.
func TestPR09SumsBeginAnew(t *testing.T) {
	s, c := newRedis(t)
	b := newBoth(s, algo.SlidingWindowLog, 100, algotest.Hour)
	planted(t, s, c, b, 0, algo.MaxCost-10, algotest.Epoch, algo.MaxCost-5) // 5 taken
	b.s = algo.State{}
	algo.Step(&b.s, &b.l, algotest.Epoch, 5, 0)
	b.do(t, algotest.Epoch+1, store.Take, 4)
	b.do(t, algotest.Epoch+2, store.Take, 10)
	b.do(t, algotest.Epoch+3, store.Take, 82)
	b.do(t, algotest.Epoch+4, store.Take, 7)
	b.do(t, algotest.Epoch+4, store.Peek, 0)
	b.do(t, algotest.Epoch+4, store.Give, 84)
	b.do(t, algotest.Epoch+5, store.Take, 3)
	b.do(t, algotest.Epoch+algotest.Hour, store.Take, 92)
}

// TestPR12ScriptIsPortable holds that the script calls what every Redis and
// Valkey has and lets a script call, and nothing else.
func TestPR12ScriptIsPortable(t *testing.T) {
	t.Parallel()
	for _, call := range regexp.MustCompile(`redis\.\w+[^)]`).FindAllString(redis.Script(), -1) {
		if call != "redis.call(" && call != "redis.pcall(" {
			t.Errorf("%s", call)
		}
	}
	portable := []string{"GET", "SET", "DEL", "LLEN", "LINDEX", "RPUSH", "LTRIM", "PEXPIRE"}
	for _, call := range regexp.MustCompile(`call\('(\w+)'`).FindAllStringSubmatch(redis.Script(), -1) {
		if !slices.Contains(portable, call[1]) {
			t.Errorf("the script calls %s", call[1])
		}
	}
}

// FuzzDriver asks the driver about keys that hold anything at all: ops of a
// limiter are never answered with an error, and arguments that are no ops are
// answered soon, in whatever way.
func FuzzDriver(f *testing.F) {
	r := rand.New(rand.NewPCG(51, 52))
	for range 200 {
		seed := make([]byte, r.IntN(400))
		for i := range seed {
			seed[i] = byte(r.Uint32())
		}
		f.Add(seed)
	}
	server := redistest.Start(f)
	c := client(f, server)
	s := open(f, server, redis.Options{Timeout: 3 * time.Second})
	sum := c.ScriptLoad(context.Background(), redis.Script()).Val()
	if _, err := take(s, must("node", hourly)); err != nil {
		f.Fatal(err)
	}
	node := c.Keys(context.Background(), "*:node").Val()[0]
	f.Fuzz(func(t *testing.T, data []byte) {
		in := (*input)(&data)
		if in.pick(4) == 0 {
			in.anyArguments(t, c, sum)
		} else {
			in.anyValue(t, c, s, node)
		}
	})
}

// input is what fuzzing gives, to be read as numbers.
type input []byte

// some returns the next n bytes, or what there is.
func (in *input) some(n int) []byte {
	n = min(n, len(*in))
	b := (*in)[:n]
	*in = (*in)[n:]
	return b
}

// pick returns one of 0 to n-1.
func (in *input) pick(n int) int {
	var b [1]byte
	copy(b[:], in.some(1))
	return int(b[0]) % n
}

// number returns one of 0 to most: often small, often close to a power of two
// or to most.
func (in *input) number(most int64) int64 {
	var b [3]byte
	copy(b[:], in.some(3))
	v := int64(b[0]) | int64(b[1])<<8
	if shift := b[2] % 64; shift < 48 {
		return v << shift % (most + 1)
	}
	return max(0, most-v)
}

// word returns any number, often one that could be a time near now.
func (in *input) word(now int64) int64 {
	n := in.number(math.MaxInt64 - 1)
	switch in.pick(8) {
	case 0, 1:
		return -n
	case 2, 3:
		return now + n%algotest.Hour
	case 4, 5:
		return now - n%algotest.Hour
	default:
		return n
	}
}

// limit returns a limit that is valid.
func (in *input) limit() *algo.Limit {
	l := &algo.Limit{
		Algorithm: algo.All()[in.pick(6)],
		Quota:     in.number(algo.MaxQuota),
		Window:    algo.MinWindow + in.number(algo.MaxWindow-algo.MinWindow),
		Overdraft: in.number(algo.MaxQuota),
	}
	if l.Algorithm.IsBucket() {
		l.Burst = l.Quota
		if in.pick(2) == 0 {
			l.Overdraft = 0
		}
	}
	if l.Algorithm == algo.LeakyBucket {
		l.MaxDelay = in.number(algo.MaxFill)
	}
	if l.Validate() != nil {
		l.Overdraft = 0
	}
	return l
}

// plant puts something under a key: nothing, bytes, a hash, a list of anything or
// of what could be a log's, or records of the limits' buckets.
func (in *input) plant(c goredis.Pipeliner, key string, now int64, ids []uint64) {
	ctx := context.Background()
	pack := func(b []byte, words int) []byte {
		for range words {
			b = binary.LittleEndian.AppendUint64(b, uint64(in.word(now)))
		}
		return b
	}
	c.Del(ctx, key)
	switch in.pick(7) {
	case 0:
	case 1:
		c.Set(ctx, key, in.some(in.pick(100)), time.Minute)
	case 2:
		c.HSet(ctx, key, "a", "b")
	case 3:
		for range in.pick(5) {
			c.RPush(ctx, key, in.some([]int{0, 15, 16, 16, 16, 16, 17}[in.pick(7)]))
		}
	case 4:
		for range in.pick(6) {
			c.RPush(ctx, key, pack(nil, 2))
		}
	default:
		value := []byte{1}
		for range in.pick(4) {
			id := uint64(in.word(now))
			if n := in.pick(1 + len(ids)); n < len(ids) {
				id = ids[n]
			}
			value = pack(binary.BigEndian.AppendUint64(value, id), 4)
		}
		c.Set(ctx, key, value, time.Minute)
	}
}

// anyArguments calls the script with arguments that nobody packed.
func (in *input) anyArguments(t *testing.T, c *goredis.Client, sum string) {
	keys := []string{"a", "b", "c"}[:in.pick(4)]
	pipe := c.Pipeline()
	now := in.number(1 << 52)
	for _, key := range keys {
		in.plant(pipe, key, now, nil)
	}
	var args []byte
	if in.pick(8) != 0 {
		args = binary.LittleEndian.AppendUint64(args, uint64(now))
		args = binary.LittleEndian.AppendUint16(args, uint16(in.pick(5)))
	}
	for range in.pick(4) {
		args = append(args, byte(in.pick(4)), 0, byte(in.pick(8)), byte(in.pick(6)), byte(in.pick(5)), byte(in.pick(3)), 0)
		for range 7 { // id, cost, parameters
			args = binary.LittleEndian.AppendUint64(args, uint64(in.word(now)))
		}
	}
	args = append(args, *in...)
	reply := pipe.EvalSha(context.Background(), sum, keys, args)
	_, _ = pipe.Exec(context.Background()) // the reply has its own error
	if err := goredis.Error(nil); reply.Err() != nil && !errors.As(reply.Err(), &err) {
		t.Fatalf("%x: %v", args, reply.Err())
	}
}

// anyValue takes from keys that hold what nobody wrote.
func (in *input) anyValue(t *testing.T, c *goredis.Client, s *redis.Store, node string) {
	now := in.number(1 << 52)
	ops := make([]store.Op, 1+in.pick(4))
	var ids []uint64
	for i := range ops {
		ops[i] = store.Op{
			Key: "node", Limit: in.limit(), Kind: store.Kind(1 + in.pick(4)), Role: store.Role(1 + in.pick(3)),
			Descriptor: i / 2, Cost: in.number(algo.MaxCost),
		}
		ids = append(ids, ops[i].Limit.ID())
	}
	pipe := c.Pipeline()
	in.plant(pipe, node, now, ids)
	for i, id := range ids {
		if ops[i].Limit.Algorithm == algo.SlidingWindowLog {
			in.plant(pipe, node+"/~log:"+strconv.FormatUint(id, 36), now, nil)
		}
	}
	_, _ = pipe.Exec(context.Background()) // some bytes are no list or no string
	if err := s.Take(context.Background(), time.UnixMicro(now), ops); err != nil {
		t.Fatalf("%v\nat %d\n%q holds %q\n%s", err, now, node, c.Get(context.Background(), node).Val(), describe(ops))
	}
}

func describe(ops []store.Op) string {
	var b strings.Builder
	for _, op := range ops {
		fmt.Fprintf(&b, "%+v of %+v\n", op, *op.Limit)
	}
	return b.String()
}
