GRANT USAGE ON SCHEMA adadim TO worker;
GRANT SELECT ON ALL TABLES IN SCHEMA adadim TO worker;
GRANT UPDATE ON adadim.agents TO worker;
GRANT INSERT ON adadim.decisions, adadim.rewards, adadim.outstanding, adadim.expired, adadim.offers, adadim.arms,
    adadim.policies, adadim.learned, adadim.snapshot TO worker;
GRANT DELETE ON adadim.outstanding, adadim.snapshot TO worker;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA adadim TO worker;
