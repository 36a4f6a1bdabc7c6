package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// What standard input asks for, a line each. Each is answered with a line.
type task struct {
	// Waits until as many addresses from the first one on are in the kernel.
	Await *struct {
		First   string `json:"first"`
		Count   uint32 `json:"count"`
		LimitMs int64  `json:"limitMs"`
	} `json:"await"`
	// Writes objects, one after the other, each with a new address.
	Change *struct {
		Changes []struct {
			Path    string          `json:"path"`
			Body    json.RawMessage `json:"body"`
			Address string          `json:"address"`
		} `json:"changes"`
		EveryMs int64 `json:"everyMs"`
		LimitMs int64 `json:"limitMs"`
	} `json:"change"`
}

// When something was written, was told by the API, and was in the kernel: milliseconds since 1970, 0 for never.
type change struct {
	Address  string  `json:"address"`
	SentMs   float64 `json:"sentMs"`
	EventMs  float64 `json:"eventMs"`
	KernelMs float64 `json:"kernelMs"`
}

type follower struct {
	api   *api
	mutex sync.Mutex
	// When it was first in the kernel, or in an event.
	inKernel, inEvent map[uint32]time.Time
	last              time.Time
}

func runFollow(words []string) error {
	api, err := openAPI("follow", words)
	if err != nil {
		return err
	}
	one := &follower{api: api, inKernel: map[uint32]time.Time{}, inEvent: map[uint32]time.Time{}}
	listening, err := openKernel(func(messages []byte, at time.Time) {
		scanAddresses(messages, func(address uint32) { one.seeKernel(address, at) })
	})
	if err != nil {
		return err
	}
	broken := make(chan error, 3)
	go func() { broken <- listening.read() }()
	go func() { broken <- one.watch() }()
	go func() { broken <- one.answer() }()
	return <-broken
}

func (one *follower) answer() error {
	fmt.Println("{}")
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			os.Exit(0)
		}
		if err != nil {
			return err
		}
		var given task
		if err := json.Unmarshal(line, &given); err != nil {
			return err
		}
		var answer any
		if given.Await != nil {
			answer = one.await(toNumber(given.Await.First), given.Await.Count, given.Await.LimitMs)
		}
		if given.Change != nil {
			if answer, err = one.change(given); err != nil {
				return err
			}
		}
		if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
			return err
		}
	}
}

func (one *follower) seeKernel(address uint32, at time.Time) {
	one.mutex.Lock()
	defer one.mutex.Unlock()
	if _, is := one.inKernel[address]; !is {
		one.inKernel[address] = at
	}
}

// Answers when the last of them came, or null when some have not.
func (one *follower) await(first, count uint32, limitMs int64) any {
	until := time.Now().Add(time.Duration(limitMs) * time.Millisecond)
	missing := first
	for time.Now().Before(until) {
		one.mutex.Lock()
		for missing < first+count {
			at, is := one.inKernel[missing]
			if !is {
				break
			}
			if at.After(one.last) {
				one.last = at
			}
			missing++
		}
		one.mutex.Unlock()
		if missing == first+count {
			return toMs(one.last)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil
}

func (one *follower) change(given task) ([]change, error) {
	every := time.Duration(given.Change.EveryMs) * time.Millisecond
	begun := time.Now()
	sent := make([]time.Time, len(given.Change.Changes))
	failures := make(chan error, len(sent))
	for at, next := range given.Change.Changes {
		time.Sleep(time.Until(begun.Add(time.Duration(at) * every)))
		sent[at] = time.Now()
		go func() {
			_, err := one.api.send(http.MethodPut, next.Path, next.Body)
			failures <- err
		}()
	}
	for range sent {
		if err := <-failures; err != nil {
			return nil, err
		}
	}
	until := time.Now().Add(time.Duration(given.Change.LimitMs) * time.Millisecond)
	for !one.hasAll(given) && time.Now().Before(until) {
		time.Sleep(10 * time.Millisecond)
	}
	one.mutex.Lock()
	defer one.mutex.Unlock()
	seen := make([]change, len(sent))
	for at, next := range given.Change.Changes {
		address := toNumber(next.Address)
		seen[at] = change{next.Address, toMs(sent[at]), toMs(one.inEvent[address]), toMs(one.inKernel[address])}
	}
	return seen, nil
}

func (one *follower) hasAll(given task) bool {
	one.mutex.Lock()
	defer one.mutex.Unlock()
	for _, next := range given.Change.Changes {
		if _, is := one.inKernel[toNumber(next.Address)]; !is {
			return false
		}
	}
	return true
}

const slicesPath = "/apis/discovery.k8s.io/v1/endpointslices"

// As much of a list, an event or an EndpointSlice as it takes.
type object struct {
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Endpoints []struct {
		Addresses []string `json:"addresses"`
	} `json:"endpoints"`
}

// Follows the EndpointSlices from now on, as everybody does who balances.
func (one *follower) watch() error {
	answer, err := one.api.send(http.MethodGet, slicesPath+"?limit=1", nil)
	if err != nil {
		return err
	}
	var list object
	if err := json.Unmarshal(answer, &list); err != nil {
		return err
	}
	query := "?watch=true&timeoutSeconds=3600&resourceVersion=" + list.Metadata.ResourceVersion
	response, err := one.api.client.Get(one.api.server + slicesPath + query)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	lines := bufio.NewReaderSize(response.Body, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return fmt.Errorf("the watch of EndpointSlices ended: %w", err)
		}
		at := time.Now()
		var event struct {
			Object object `json:"object"`
		}
		if err := json.Unmarshal(line, &event); err != nil {
			return err
		}
		one.seeEvent(event.Object, at)
	}
}

func (one *follower) seeEvent(slice object, at time.Time) {
	one.mutex.Lock()
	defer one.mutex.Unlock()
	for _, endpoint := range slice.Endpoints {
		for _, text := range endpoint.Addresses {
			address := toNumber(text)
			if _, is := one.inEvent[address]; !is {
				one.inEvent[address] = at
			}
		}
	}
}

func toNumber(text string) uint32 {
	if address := net.ParseIP(text).To4(); address != nil {
		return binary.BigEndian.Uint32(address)
	}
	return 0
}

func toMs(at time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return float64(at.UnixMicro()) / 1000
}
