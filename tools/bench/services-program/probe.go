package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// A client that keeps asking many addresses by UDP. It has its own address and its own table of neighbours on the wire: the kernel's
// has room for 1,024 of the whole machine.
type prober struct {
	wire  *wire
	every time.Duration
	mutex sync.Mutex
	// Whether a fault has begun.
	isMeasuring bool
	targets     []target
	index       map[[4]byte]int
}

type target struct {
	address [4]byte
	// Null while nobody has said where it is.
	neighbour net.HardwareAddr
	// All who have said that it is with them, since the last roll call.
	heard map[string]bool
	asked time.Time
	// When the last answer came, and the first one after the beginning.
	answered, first time.Time
	lostLater       int
	sent            uint32
	lastAnswered    uint32
}

// An address that answers is asked so much less often: the machine has other things to do.
const idleTurns = 10

// Linux asks again where a neighbour is that has said nothing for so long: 5 s of patience, and three questions to itself only.
const neighbourPatience = 8 * time.Second

// What standard input asks for, a line each. Each is answered with a line.
type question struct {
	// Waits until all have answered without a gap for so long.
	SteadyMs int64 `json:"steadyMs"`
	// From now on outages are measured. Answered at once.
	Begin bool `json:"begin"`
	// Waits until all have answered a request from after the beginning.
	Report bool `json:"report"`
	// How long each of them may take.
	LimitMs int64 `json:"limitMs"`
}

// Milliseconds from the beginning to the answer of each address, by the order of the command line; -1 for none.
type outage struct {
	OutagesMs []float64 `json:"outagesMs"`
	// Requests after an address' first answer that got none.
	LostLater int `json:"lostLater"`
	// The addresses that are at another neighbour than at the beginning.
	Moved int `json:"moved"`
}

func runProbe(words []string) error {
	flags := flag.NewFlagSet("probe", flag.ContinueOnError)
	link := flags.String("interface", "eth0", "where the wire is")
	own := flags.String("own", "", "this client's address, which the kernel must not have")
	port := flags.Int("port", 80, "of all targets")
	every := flags.Duration("every", 100*time.Millisecond, "between two requests to an address")
	file := flags.String("targets", "", "a file with an address in each line")
	if err := flags.Parse(words); err != nil {
		return err
	}
	text, err := os.ReadFile(*file)
	if err != nil {
		return err
	}
	opened, err := openWire(*link, net.ParseIP(*own), uint16(*port))
	if err != nil {
		return err
	}
	one := newProber(opened, string(text), *every)
	broken := make(chan error, 3)
	go func() { broken <- one.receive() }()
	go func() { broken <- one.ask() }()
	go func() { broken <- one.answer() }()
	return <-broken
}

func newProber(wire *wire, text string, every time.Duration) *prober {
	one := &prober{wire: wire, every: every, index: map[[4]byte]int{}}
	for _, line := range splitLines(text) {
		address := [4]byte(net.ParseIP(line).To4())
		one.index[address] = len(one.targets)
		one.targets = append(one.targets, target{address: address})
	}
	return one
}

// Requests are spread over the time between two of them to one address.
func (one *prober) ask() error {
	begun := time.Now()
	for turn := 0; ; turn++ {
		for at := range one.targets {
			share := one.every * time.Duration(at) / time.Duration(len(one.targets))
			if wait := time.Until(begun.Add(one.every*time.Duration(turn) + share)); wait > time.Millisecond {
				time.Sleep(wait)
			}
			if err := one.askOne(at, turn); err != nil {
				return err
			}
		}
	}
}

func (one *prober) askOne(at, turn int) error {
	now := time.Now()
	one.mutex.Lock()
	defer one.mutex.Unlock()
	each := &one.targets[at]
	isAwaited := one.isMeasuring && each.first.IsZero()
	if !isAwaited && (turn+at)%idleTurns != 0 {
		return nil
	}
	isSilent := now.Sub(each.answered) > neighbourPatience
	if (each.neighbour == nil || isSilent) && now.Sub(each.asked) > time.Second {
		each.asked = now
		if err := one.wire.whoHas(each.address); err != nil {
			return err
		}
	}
	if each.neighbour == nil {
		return nil
	}
	each.sent++
	return one.wire.request(each.address, each.neighbour, each.sent, now)
}

func (one *prober) receive() error {
	return one.wire.receive(func(neighbour arrival) {
		one.mutex.Lock()
		defer one.mutex.Unlock()
		if at, is := one.index[neighbour.address]; is {
			one.targets[at].neighbour = neighbour.hardware
			if heard := one.targets[at].heard; heard != nil {
				heard[neighbour.hardware.String()] = true
			}
		}
	}, func(answer reply) {
		one.mutex.Lock()
		defer one.mutex.Unlock()
		if at, is := one.index[answer.address]; is {
			one.targets[at].take(answer)
		}
	})
}

func (each *target) take(answer reply) {
	if !each.first.IsZero() && answer.number > each.lastAnswered+1 {
		each.lostLater += int(answer.number - each.lastAnswered - 1)
	}
	each.answered, each.lastAnswered = answer.at, answer.number
	if each.first.IsZero() {
		each.first = answer.at
	}
}

func (one *prober) answer() error {
	fmt.Println("{}")
	lines := bufio.NewReader(os.Stdin)
	var begun time.Time
	var before []string
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			os.Exit(0)
		}
		if err != nil {
			return err
		}
		var given question
		if err := json.Unmarshal(line, &given); err != nil {
			return err
		}
		limit := time.Now().Add(time.Duration(given.LimitMs) * time.Millisecond)
		var answer any
		switch {
		case given.SteadyMs > 0:
			answer = one.waitForSteady(time.Duration(given.SteadyMs)*time.Millisecond, limit)
		case given.Begin:
			begun, before = one.begin()
			answer = float64(begun.UnixMicro()) / 1000
		case given.Report:
			answer = one.report(begun, before, limit)
		}
		if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
			return err
		}
	}
}

// How things are: how many addresses do not answer, and how many each neighbour has. Two neighbours may say that they have one.
type state struct {
	Silent     int            `json:"silent"`
	Neighbours map[string]int `json:"neighbours"`
}

func (one *prober) waitForSteady(steady time.Duration, limit time.Time) state {
	since := time.Now()
	for {
		silent := one.countSilent()
		if silent > 0 {
			since = time.Now()
		}
		if time.Since(since) > steady || time.Now().After(limit) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	one.callRoll()
	time.Sleep(time.Second)
	return state{one.countSilent(), one.countNeighbours()}
}

// Asks for every address who has it.
func (one *prober) callRoll() {
	one.mutex.Lock()
	defer one.mutex.Unlock()
	for at := range one.targets {
		one.targets[at].heard = map[string]bool{}
		// What cannot be sent is not heard of either.
		_ = one.wire.whoHas(one.targets[at].address)
	}
}

func (one *prober) countNeighbours() map[string]int {
	one.mutex.Lock()
	defer one.mutex.Unlock()
	counts := map[string]int{}
	for at := range one.targets {
		for neighbour := range one.targets[at].heard {
			counts[neighbour]++
		}
	}
	return counts
}

func (one *prober) countSilent() int {
	one.mutex.Lock()
	defer one.mutex.Unlock()
	silent := 0
	for at := range one.targets {
		if time.Since(one.targets[at].answered) > 3*idleTurns*one.every+200*time.Millisecond {
			silent++
		}
	}
	return silent
}

// Forgets what came before: an answer counts whose request was sent from now on. Answers where each address was.
func (one *prober) begin() (time.Time, []string) {
	one.mutex.Lock()
	defer one.mutex.Unlock()
	begun := time.Now()
	one.isMeasuring = true
	one.wire.notBefore(begun)
	before := make([]string, len(one.targets))
	for at := range one.targets {
		each := &one.targets[at]
		each.first, each.lostLater = time.Time{}, 0
		before[at] = each.neighbour.String()
	}
	return begun, before
}

// After the last address has answered it listens for another two seconds, for what is lost then.
func (one *prober) report(begun time.Time, before []string, limit time.Time) outage {
	for one.countUnanswered() > 0 && time.Now().Before(limit) {
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(2 * time.Second)
	one.mutex.Lock()
	defer one.mutex.Unlock()
	one.isMeasuring = false
	found := outage{}
	for at := range one.targets {
		each := &one.targets[at]
		outageMs := -1.0
		if !each.first.IsZero() {
			outageMs = float64(each.first.Sub(begun).Microseconds()) / 1000
		}
		found.OutagesMs = append(found.OutagesMs, outageMs)
		found.LostLater += each.lostLater
		if each.neighbour.String() != before[at] {
			found.Moved++
		}
	}
	return found
}

func (one *prober) countUnanswered() int {
	one.mutex.Lock()
	defer one.mutex.Unlock()
	missing := 0
	for at := range one.targets {
		if one.targets[at].first.IsZero() {
			missing++
		}
	}
	return missing
}
