"""The same request alone and in company: is the answer the same, and where does it part?"""
