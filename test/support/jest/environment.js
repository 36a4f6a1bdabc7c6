import { TestEnvironment } from 'jest-environment-node';

/**
 * Node's environment, in which tests can reach the process that they run in: the `process` that Jest gives them is a copy,
 * which hears neither of signals nor of its end. What a test made has to go then, too (test/support/network/at-end.ts).
 */
export default class RemovingEnvironment extends TestEnvironment {
  constructor(config, context) {
    super(config, context);
    this.global.getRunner = () => process;
  }
}
