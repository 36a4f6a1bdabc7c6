package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
)

// One line of standard input. Requests of one stage may come in any order; the next stage waits for them.
type order struct {
	Stage  int             `json:"stage"`
	Method string          `json:"method"`
	Path   string          `json:"path"`
	Body   json.RawMessage `json:"body"`
}

const writers = 16

func runWrite(words []string) error {
	api, err := openAPI("write", words)
	if err != nil {
		return err
	}
	orders, err := readOrders(os.Stdin)
	if err != nil {
		return err
	}
	for begin := 0; begin < len(orders); {
		end := begin
		for end < len(orders) && orders[end].Stage == orders[begin].Stage {
			end++
		}
		if err := sendAll(api, orders[begin:end]); err != nil {
			return err
		}
		begin = end
	}
	fmt.Println(len(orders))
	return nil
}

func readOrders(input io.Reader) ([]order, error) {
	var orders []order
	lines := bufio.NewReader(input)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 1 {
			var one order
			if err := json.Unmarshal(line, &one); err != nil {
				return nil, err
			}
			orders = append(orders, one)
		}
		if err == io.EOF {
			return orders, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func sendAll(api *api, orders []order) error {
	queue := make(chan order)
	failures := make(chan error, writers)
	var group sync.WaitGroup
	for range writers {
		group.Add(1)
		go func() {
			defer group.Done()
			var failure error
			for one := range queue {
				if failure == nil {
					_, failure = api.send(one.Method, one.Path, one.Body)
				}
			}
			failures <- failure
		}()
	}
	for _, one := range orders {
		queue <- one
	}
	close(queue)
	group.Wait()
	close(failures)
	for failure := range failures {
		if failure != nil {
			return failure
		}
	}
	return nil
}
