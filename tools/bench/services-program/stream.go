package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
)

// What became of an order, and the UID of what it made. An error is told, and ends nothing.
type outcome struct {
	Index int    `json:"index"`
	UID   string `json:"uid"`
	Error string `json:"error,omitempty"`
}

// Sends each line of standard input as soon as it comes, and answers each with a line, in whatever order they end.
func runStream(words []string) error {
	api, err := openAPI("stream", words)
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	var mutex sync.Mutex
	encoder := json.NewEncoder(os.Stdout)
	fmt.Println("{}")
	lines := bufio.NewReader(os.Stdin)
	for index := 0; ; index++ {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			group.Wait()
			return nil
		}
		if err != nil {
			return err
		}
		var one order
		if err := json.Unmarshal(line, &one); err != nil {
			return err
		}
		group.Add(1)
		go func() {
			defer group.Done()
			found := outcome{Index: index}
			answer, err := api.send(one.Method, one.Path, one.Body)
			if err != nil {
				found.Error = err.Error()
			} else {
				found.UID = readUID(answer)
			}
			mutex.Lock()
			defer mutex.Unlock()
			encoder.Encode(found)
		}()
	}
}

func readUID(answer []byte) string {
	var object struct {
		Metadata struct {
			UID string `json:"uid"`
		} `json:"metadata"`
	}
	if json.Unmarshal(answer, &object) != nil {
		return ""
	}
	return object.Metadata.UID
}
