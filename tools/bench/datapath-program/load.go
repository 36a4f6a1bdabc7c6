package main

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// How long a request may take beyond the window, and a connection to be there.
const grace = 5 * time.Second

// So many are connected at a time before the window: more would overflow a listener's backlog.
const dialing = 200

// Few clients keep more connections than one and use them in turn: who is at the other end of one is chance.
const keptAtLeast = 30

var (
	keepRequest  = []byte("GET /readyz HTTP/1.1\r\nHost: apiserver\r\n\r\n")
	closeRequest = []byte("GET /readyz HTTP/1.1\r\nHost: apiserver\r\nConnection: close\r\n\r\n")
	lengthField  = []byte("\r\nContent-Length: ")
	serverField  = []byte("\r\nServer: ")
)

// Signs of life on idle connections are switched on by calls of their own.
var dialer = net.Dialer{Timeout: grace, KeepAlive: -1}

type task struct {
	targets        []string
	isNew, isTLS   bool
	clients        int
	warmUp, window time.Duration
	watched        string
}

// What one window saw. Times in microseconds; a request belongs to the window in which its answer came.
type report struct {
	Seconds  float64           `json:"seconds"`
	Requests int               `json:"requests"`
	Errors   map[string]int    `json:"errors"`
	All      latencies         `json:"all"`
	Servers  map[string]seen   `json:"servers"`
	Machine  usage             `json:"machine"`
	Watched  map[string]burden `json:"watched"`
}

type latencies struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

type seen struct {
	Requests int `json:"requests"`
	latencies
}

// A connection; the server's name where its certificate tells it.
type link struct {
	net.Conn
	server string
}

// One answer: how long it took, and who gave it.
type sample struct {
	nanoseconds int64
	server      string
}

type client struct {
	task
	number   int
	settings *tls.Config
	phase    *atomic.Int32
	current  atomic.Pointer[link]
	kept     []*link
	samples  []sample
	errors   map[string]int
	buffer   []byte
	names    map[string]string
}

const (
	before = iota
	during
	after
)

func load(what task) (report, error) {
	var phase atomic.Int32
	clients := make([]*client, what.clients)
	gate := make(chan struct{})
	turns := make(chan struct{}, dialing)
	var ready, done sync.WaitGroup
	for number := range clients {
		one := &client{
			task: what, number: number, phase: &phase,
			// Without a session cache: every connection has a whole handshake.
			settings: &tls.Config{InsecureSkipVerify: true},
			errors:   map[string]int{}, buffer: make([]byte, 1024), names: map[string]string{},
		}
		clients[number] = one
		ready.Add(1)
		done.Add(1)
		go func() {
			defer done.Done()
			one.prepare(turns)
			ready.Done()
			<-gate
			// All at once they would lose packets in queues that they never fill again.
			time.Sleep(what.warmUp / 2 * time.Duration(number) / time.Duration(what.clients))
			one.work()
		}()
	}
	ready.Wait()
	close(gate)
	time.Sleep(what.warmUp)
	watch, err := startWatch(what.watched)
	if err != nil {
		return report{}, err
	}
	started := time.Now()
	phase.Store(during)
	time.Sleep(what.window)
	phase.Store(after)
	seconds := time.Since(started).Seconds()
	machine, watched, err := watch.finish()
	if err != nil {
		return report{}, err
	}
	endAll(&done, clients)
	result := summarize(clients)
	result.Seconds, result.Machine, result.Watched = seconds, machine, watched
	return result, nil
}

// What is under way has a grace, and is broken off then.
func endAll(done *sync.WaitGroup, clients []*client) {
	breaking := time.AfterFunc(grace, func() {
		for _, one := range clients {
			if current := one.current.Load(); current != nil {
				current.Close()
			}
		}
	})
	defer breaking.Stop()
	done.Wait()
}

// Opens what is kept.
func (one *client) prepare(turns chan struct{}) {
	if one.isNew {
		return
	}
	one.kept = make([]*link, (keptAtLeast+one.clients-1)/one.clients)
	for turn := range one.kept {
		turns <- struct{}{}
		one.kept[turn] = one.open(turn)
		<-turns
	}
}

// Asks until the window is over.
func (one *client) work() {
	for turn := 0; one.phase.Load() != after; turn++ {
		if one.isNew {
			one.measure(nil, turn)
		} else {
			index := turn % len(one.kept)
			one.kept[index] = one.measure(one.kept[index], turn)
		}
	}
	for _, each := range one.kept {
		if each != nil {
			each.Close()
		}
	}
}

// One request, on a connection that is there or on a new one. Answers the connection when it is still good.
func (one *client) measure(connection *link, turn int) *link {
	started := time.Now()
	if connection == nil {
		connection = one.open(turn)
	}
	if connection == nil {
		return nil
	}
	one.current.Store(connection)
	server, err := one.ask(connection)
	if err != nil {
		one.fail(err)
	} else if one.phase.Load() == during {
		one.samples = append(one.samples, sample{int64(time.Since(started)), server})
	}
	if err == nil && !one.isNew {
		return connection
	}
	connection.Close()
	return nil
}

// Connects to the next target; nil when that failed.
func (one *client) open(turn int) *link {
	target := one.targets[(one.number+turn)%len(one.targets)]
	connection, err := dialer.Dial("tcp", target)
	if err != nil {
		one.fail(err)
		return nil
	}
	opened := &link{Conn: connection}
	one.current.Store(opened)
	if !one.isTLS {
		return opened
	}
	secure := tls.Client(connection, one.settings)
	if err := secure.Handshake(); err != nil {
		connection.Close()
		one.fail(err)
		return nil
	}
	return &link{secure, secure.ConnectionState().PeerCertificates[0].Subject.CommonName}
}

// One request and its whole answer; on a new connection also the end of that, so that it is the server that closes
// first and no port of the client has to wait. Answers the server's name.
func (one *client) ask(connection *link) (string, error) {
	request := keepRequest
	if one.isNew {
		request = closeRequest
	}
	if _, err := connection.Write(request); err != nil {
		return "", err
	}
	length := 0
	for {
		count, err := connection.Read(one.buffer[length:])
		length += count
		size := measureAnswer(one.buffer[:length])
		if size >= 0 && length >= size && (!one.isNew || err != nil) {
			return one.nameServer(connection, one.buffer[:length])
		}
		if err != nil {
			return "", err
		}
		if length == len(one.buffer) {
			return "", errors.New("an answer too long")
		}
	}
}

// The length of the whole answer that begins so; -1 while that cannot be told.
func measureAnswer(text []byte) int {
	head := bytes.Index(text, endOfHead)
	if head < 0 {
		return -1
	}
	field := bytes.Index(text[:head], lengthField)
	if field < 0 {
		return -1
	}
	digits := text[field+len(lengthField) : head]
	if line := bytes.IndexByte(digits, '\r'); line >= 0 {
		digits = digits[:line]
	}
	body, err := strconv.Atoi(string(digits))
	if err != nil {
		return -1
	}
	return head + len(endOfHead) + body
}

// A kube-apiserver does not say who it is, but its certificate does.
func (one *client) nameServer(connection *link, answer []byte) (string, error) {
	if !bytes.HasPrefix(answer, []byte("HTTP/1.1 200 ")) {
		return "", fmt.Errorf("answer %.12s", answer)
	}
	if connection.server != "" {
		return connection.server, nil
	}
	_, rest, _ := bytes.Cut(answer, serverField)
	name, _, _ := bytes.Cut(rest, []byte("\r"))
	// The same text for all answers: a window has a hundred thousand.
	known, isKnown := one.names[string(name)]
	if !isKnown {
		known = string(name)
		one.names[known] = known
	}
	return known, nil
}

func (one *client) fail(err error) {
	one.errors[describe(err)]++
	// Whatever refuses now would be asked a million times.
	time.Sleep(time.Millisecond)
}

func describe(err error) string {
	var number syscall.Errno
	if errors.As(err, &number) {
		return number.Error()
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return "timeout"
	}
	if errors.Is(err, net.ErrClosed) {
		return "no answer"
	}
	var network net.Error
	if errors.As(err, &network) && network.Timeout() {
		return "timeout"
	}
	return err.Error()
}

func summarize(clients []*client) report {
	result := report{Errors: map[string]int{}, Servers: map[string]seen{}}
	var all []int64
	byServer := map[string][]int64{}
	for _, one := range clients {
		for _, sample := range one.samples {
			all = append(all, sample.nanoseconds)
			byServer[sample.server] = append(byServer[sample.server], sample.nanoseconds)
		}
		for text, count := range one.errors {
			result.Errors[text] += count
		}
	}
	result.Requests = len(all)
	result.All = rank(all)
	for server, some := range byServer {
		result.Servers[server] = seen{len(some), rank(some)}
	}
	return result
}

// Percentiles by nearest rank.
func rank(values []int64) latencies {
	if len(values) == 0 {
		return latencies{}
	}
	slices.Sort(values)
	at := func(percent int) float64 {
		return float64(values[(percent*len(values)+99)/100-1]) / 1000
	}
	return latencies{at(50), at(99), at(100)}
}
