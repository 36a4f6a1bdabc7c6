import { type Command } from 'commander';
import { type Flags } from '../../config/flags.ts';
import { findStrangers } from './find-strangers.ts';
import { type Invocation } from './invocation.ts';
import { type Found, type Own, readColour } from './read-command.ts';

/** What a command line asks for. Unknown words were let pass, so that they are told together with everything else that is wrong. */
export function toInvocation(command: Command, own: Own, found: Found): Invocation {
  const { command: configured, wordCount = 0, problems = [] } = found;
  const { colour, problems: colourProblems } = readColour(own.color);
  return {
    kind: 'configured',
    command: configured,
    flags: own as Flags,
    colour,
    file: own.config,
    problems: [...findStrangers(command, wordCount), ...problems, ...colourProblems],
  };
}
