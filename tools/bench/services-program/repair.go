package main

import (
	"flag"
	"fmt"
	"os/exec"
	"time"
)

// Runs a command that takes rules out of a chain, and prints how many milliseconds later the chain has a rule again: from the kernel's
// word of the one to its word of the other.
func runRepair(words []string) error {
	flags := flag.NewFlagSet("repair", flag.ContinueOnError)
	chain := flags.String("chain", "", "name")
	limit := flags.Duration("limit", 0, "duration")
	if err := flags.Parse(words); err != nil {
		return err
	}
	var removed time.Time
	repaired := make(chan time.Duration, 1)
	listening, err := openKernel(func(messages []byte, at time.Time) {
		scanRules(messages, func(kind uint16, name string) {
			switch {
			case name != *chain:
			case kind == deletedRule:
				removed = at
			case !removed.IsZero() && len(repaired) == 0:
				repaired <- at.Sub(removed)
			}
		})
	})
	if err != nil {
		return err
	}
	broken := make(chan error, 1)
	go func() { broken <- listening.read() }()
	command := flags.Args()
	if output, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w: %s", command, err, output)
	}
	select {
	case took := <-repaired:
		fmt.Println(float64(took.Microseconds()) / 1000)
		return nil
	case err := <-broken:
		return err
	case <-time.After(*limit):
		return fmt.Errorf("chain %s has no rule after %v", *chain, *limit)
	}
}
