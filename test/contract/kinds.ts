import { families } from '../../lib/net.ts';
import { iptablesDialects } from '../../lib/kernel/port.ts';
import type { KernelSubject } from './subject.ts';
import { createFakeSubject } from './fake-subject.ts';
import { createRealSubject, whyNoNamespaces } from './real-subject.ts';
import { describe, beforeEach, afterEach } from '@jest/globals';

/** A read of everything there is, for the service default/kubernetes. */
export const everything = {
  families,
  dialects: iptablesDialects,
  nftServiceChain: 'service-2QRHZV4L-default/kubernetes/tcp/https',
};

/**
 * Describes the same behaviours of the fake kernel and of the real one; each test gets a new subject. Outside CI
 * a machine without namespaces is told so, and the real kernel's tests are counted as skipped.
 */
export function describeKernels(behaviours: (subject: () => KernelSubject) => void): void {
  describeKind('the fake kernel', createFakeSubject, behaviours);
  if (obstacle === null) describeKind('the real kernel', createRealSubject, behaviours);
  else
    describe.skip(`the real kernel (${obstacle})`, () => {
      behaviours(() => {
        throw new Error('skipped');
      });
    });
}

const obstacle = process.env['CI'] === 'true' ? null : await whyNoNamespaces();

function describeKind(
  name: string,
  create: () => Promise<KernelSubject>,
  behaviours: (subject: () => KernelSubject) => void,
): void {
  describe(name, () => {
    behaviours(useSubject(create));
  });
}

/** Gives each test of this block a subject of its own: the real kernel, unless another one is named. */
export function useSubject(create: () => Promise<KernelSubject> = createRealSubject): () => KernelSubject {
  let subject: KernelSubject | undefined;
  beforeEach(async () => {
    subject = await create();
  });
  afterEach(() => subject?.dispose());
  return () => {
    if (subject === undefined) throw new Error('no test runs');
    return subject;
  };
}
