import { join } from 'node:path';
import { TestEnvironment } from 'jest-environment-node';
import { EvidenceKeeper, locateEvidence } from './evidence-keeper.ts';

/** How long a collector of evidence may take; a test's configuration may say otherwise. */
const usualLimitMs = 10_000;

/**
 * Node's environment, in which tests can reach the process that they run in: the `process` that Jest gives them is a copy,
 * which hears neither of signals nor of its end. What a test made has to go then, too (test/support/network/at-end.ts).
 * When a test fails, it keeps what tells why (test/support/jest/evidence.ts): in $TEST_EVIDENCE, where a run says so.
 */
export default class RemovingEnvironment extends TestEnvironment {
  constructor(config, context) {
    super(config, context);
    const { globalConfig, projectConfig } = config;
    const given = process.env.TEST_EVIDENCE;
    const root = given ?? join(globalConfig.rootDir, '.cache/test-evidence/run');
    this.keeper = new EvidenceKeeper({
      folder: locateEvidence(root, projectConfig.displayName?.name ?? 'tests', context.testPath),
      isOwn: given === undefined,
      limitMs: projectConfig.testEnvironmentOptions.evidenceLimitMs ?? usualLimitMs,
    });
    this.global.getRunner = () => process;
    this.global.evidence = this.keeper.collectors;
  }

  /** Of jest-circus, which waits for it. */
  async handleTestEvent(event) {
    await this.keeper.onEvent(event);
  }

  async teardown() {
    this.keeper.close();
    await super.teardown();
  }
}
